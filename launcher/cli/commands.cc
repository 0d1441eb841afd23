#include "launcher/cli/commands.h"

#include <fmt/core.h>

#include <algorithm>

#include "launcher/coordinator/job_record.h"
#include "runtime/platform/api/console.h"

namespace trireme {

const std::vector<Command>& commands() {
  static const std::vector<Command> list = {
      {"run", "start a program as N ranks, supervise it, restart it after failures", run_command},
      {"ranks", "show what the ranks of a running job do, and which hold up the others", ranks_command},
      {"trace", "write what ranks did as a time line for Perfetto", trace_command},
      {"topo", "show what this host is made of and how its parts are joined", topo_command},
      {"environment", "list the environment variables that Trireme reads", environment_command},
      {"version", "print the version", version_command},
      {"help", "print this help, or that of a command", help_command},
      {"shim", "parent the ranks of one host (started by 'run')", shim_command, true},
  };
  return list;
}

bool wants_help(const std::vector<std::string>& arguments) {
  return std::any_of(arguments.begin(), arguments.end(),
                     [](const std::string& argument) { return argument == "-h" || argument == "--help"; });
}

int usage_error(std::string_view message) {
  print_error(fmt::format("trireme: {}\n", message));
  return kUsageExitCode;
}

}  // namespace trireme
