#include <fmt/core.h>

#include "launcher/cli/commands.h"
#include "runtime/platform/api/console.h"

namespace trireme {

// TRIREME_VERSION is the project's version; the build defines it for this file.
int version_command(const std::vector<std::string>& arguments) {
  if (!arguments.empty() && !wants_help(arguments)) {
    return usage_error("'trireme version' takes no arguments, but got '" + arguments[0] + "'");
  }
  print_out(fmt::format("trireme {}\n", TRIREME_VERSION));
  return 0;
}

}  // namespace trireme
