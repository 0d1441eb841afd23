#include <trireme/topology/network.h>

#include <array>
#include <cmath>

namespace trireme {
namespace {

constexpr std::array<std::string_view, kLinkKindCount> kLinkKinds = {"internal", "memory", "pci_express", "nvlink",
                                                                     "network"};

bool is_figure(double value) {
  return std::isfinite(value) && value >= 0;
}

Status check_level(const NetworkLevel& level, const std::string& where, const DescribedNetwork& network) {
  if (level.reaches < 0) return invalid_argument(where + "reaches is negative; expected ranks, or 0 for all");
  if (level.rails < 1 || network.ranks_per_host % level.rails != 0) {
    return invalid_argument(where + "rails is " + std::to_string(level.rails) + "; expected a divisor of the " +
                            std::to_string(network.ranks_per_host) + " ranks of a host");
  }
  if (level.rails > 1 && level.reaches % network.ranks_per_host != 0) {
    return invalid_argument(where + "reaches is no multiple of ranks_per_host, which a level with rails needs");
  }
  if (level.shared_by < 1) return invalid_argument(where + "shared_by is less than 1");
  if (!is_figure(level.bytes_per_second) || level.bytes_per_second <= 0) {
    return invalid_argument(where + "bytes_per_second is missing or not positive");
  }
  if (!is_figure(level.latency_us) || !is_figure(level.block_bytes_per_second)) {
    return invalid_argument(where + "latency_us or block_bytes_per_second is negative or no number");
  }
  return Status::ok();
}

}  // namespace

std::string_view to_string(LinkKind kind) {
  return kLinkKinds[static_cast<std::size_t>(kind)];
}

Status DescribedNetwork::check() const {
  if (ranks_per_host < 1) return invalid_argument("topology network: ranks_per_host is less than 1");
  if (!is_figure(message_us) || !is_figure(work_bytes_per_second)) {
    return invalid_argument("topology network: message_us or work_bytes_per_second is negative or no number");
  }
  if (levels.empty()) return invalid_argument("topology network: it has no levels, so no rank reaches another");
  for (std::size_t index = 0; index < levels.size(); ++index) {
    const std::string where = "topology network level " + std::to_string(index) + " ('" + levels[index].name + "'): ";
    TRIREME_RETURN_IF_ERROR(check_level(levels[index], where, *this));
  }
  const NetworkLevel& last = levels.back();
  if (last.reaches != 0 || last.rails != 1) {
    return invalid_argument("topology network: the last level ('" + last.name +
                            "') must join all ranks (reaches 0, rails 1)");
  }
  return Status::ok();
}

}  // namespace trireme
