#include <fmt/core.h>

#include <trireme/platform/environment.h>

#include "launcher/cli/commands.h"

namespace trireme {

int environment_command(const std::vector<std::string>& arguments) {
  if (wants_help(arguments)) {
    fmt::print(
        "Usage: trireme environment\n\nLists every environment variable that Trireme reads: its name, its\n"
        "meaning, its default, and its value where it is set.\n");
    return 0;
  }
  if (!arguments.empty()) {
    return usage_error("'trireme environment' takes no arguments, but got '" + arguments[0] + "'");
  }
  for (const EnvironmentVariable& variable : environment_variables()) {
    fmt::print("{:<28} {}", variable.name, variable.meaning);
    if (!variable.default_value.empty()) fmt::print(" [default: {}]", variable.default_value);
    if (const auto value = environment(variable.name)) fmt::print(" [now: {}]", *value);
    fmt::print("\n");
  }
  return 0;
}

}  // namespace trireme
