#include <fmt/core.h>

#include <trireme/platform/environment.h>

#include "launcher/cli/commands.h"
#include "runtime/platform/api/console.h"

namespace trireme {

int environment_command(const std::vector<std::string>& arguments) {
  if (wants_help(arguments)) {
    print_out(
        "Usage: trireme environment\n\nLists every environment variable that Trireme reads: its name, its\n"
        "meaning, its default, and its value where it is set.\n");
    return 0;
  }
  if (!arguments.empty()) {
    return usage_error("'trireme environment' takes no arguments, but got '" + arguments[0] + "'");
  }
  for (const EnvironmentVariable& variable : environment_variables()) {
    print_out(fmt::format("{:<28} {}", variable.name, variable.meaning));
    if (!variable.default_value.empty()) print_out(fmt::format(" [default: {}]", variable.default_value));
    if (const auto value = environment(variable.name)) print_out(fmt::format(" [now: {}]", *value));
    print_out("\n");
  }
  return 0;
}

}  // namespace trireme
