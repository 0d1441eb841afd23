// The subcommands of `trireme`: one list, one file each.
//
// A command gets the arguments after its name and returns the program's exit code.
// `trireme X` for an X that is not listed runs libexec/trireme/trireme-X, which the
// folder that owns X builds (external_command.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct Command {
  std::string_view name;
  std::string_view summary;
  int (*run)(const std::vector<std::string>& arguments);
  bool internal = false;  // Started by trireme itself; not in the help.
};

const std::vector<Command>& commands();

// Whether the program was asked for help: "-h" or "--help" among `arguments`.
bool wants_help(const std::vector<std::string>& arguments);
// Prints "trireme: message" to standard error and returns 2.
int usage_error(std::string_view message);

int run_command(const std::vector<std::string>& arguments);
int ranks_command(const std::vector<std::string>& arguments);
int trace_command(const std::vector<std::string>& arguments);
int topo_command(const std::vector<std::string>& arguments);
int environment_command(const std::vector<std::string>& arguments);
int version_command(const std::vector<std::string>& arguments);
int help_command(const std::vector<std::string>& arguments);
int shim_command(const std::vector<std::string>& arguments);

}  // namespace trireme
