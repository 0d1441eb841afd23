#include "checkpoint/agreement.h"

#include <numeric>

namespace trireme {

Result<std::vector<std::string>> Agreement::gather(const std::string& name, std::string_view value, Deadline deadline) {
  const int rank = world_->rank();
  const std::string prefix = scope_ + "/" + name + "/";
  if (rank != 0) {
    TRIREME_RETURN_IF_ERROR(world_->exchange(prefix + std::to_string(rank), {0, rank}, value, deadline).status());
    return std::vector<std::string>();
  }
  std::vector<std::string> values = {std::string(value)};
  for (int other = 1; other < world_->size(); ++other) {
    auto pair = world_->exchange(prefix + std::to_string(other), {0, other}, "", deadline);
    if (!pair.is_ok()) return pair.status();
    values.push_back(std::move((*pair)[1]));
  }
  return values;
}

Result<std::string> Agreement::announce(const std::string& name, std::string_view value, Deadline deadline) {
  if (world_->size() == 1) return std::string(value);
  std::vector<int> everyone(static_cast<std::size_t>(world_->size()));
  std::iota(everyone.begin(), everyone.end(), 0);
  auto values = world_->exchange(scope_ + "/" + name, everyone, is_root() ? value : std::string_view(), deadline);
  if (!values.is_ok()) return values.status();
  return std::move((*values)[0]);
}

}  // namespace trireme
