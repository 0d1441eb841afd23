// The ranks' environment: the launcher's, changed as -x says.
#include <fmt/core.h>

#include <algorithm>
#include <cctype>

#include "launcher/cli/run_options.h"
#include "launcher/shim/rank_process.h"

namespace trireme {
namespace {

bool is_variable_name(std::string_view name) {
  const auto fits = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
         std::all_of(name.begin(), name.end(), fits);
}

}  // namespace

Result<std::vector<std::string>> exported_environment(std::vector<std::string> base,
                                                      const std::vector<std::string>& exports) {
  for (const std::string& entry : exports) {
    const std::size_t equals = entry.find('=');
    const std::string name = entry.substr(0, equals);
    if (!is_variable_name(name)) {
      return invalid_argument(
          fmt::format("-x {}: expected NAME or NAME=VALUE, where NAME is letters, digits and '_'", entry));
    }
    if (is_rank_variable(name)) {
      return invalid_argument(fmt::format("-x {}: {} is set for each rank by the launcher", entry, name));
    }
    const auto is_same = [&](const std::string& other) { return other.compare(0, name.size() + 1, name + "=") == 0; };
    const auto found = std::find_if(base.begin(), base.end(), is_same);
    if (equals == std::string::npos) {
      if (found != base.end()) continue;
      return invalid_argument(
          fmt::format("-x {}: there is no such variable in the environment; set it, or give -x {}=VALUE", name, name));
    }
    if (found != base.end()) base.erase(found);
    base.push_back(entry);
  }
  return base;
}

}  // namespace trireme
