#include <fmt/core.h>

#include "launcher/cli/commands.h"
#include "launcher/cli/external_command.h"
#include "runtime/platform/api/console.h"

namespace trireme {
namespace {

void print_overview() {
  print_out("Usage: trireme COMMAND [ARGUMENTS]\n\nCommands:\n");
  for (const Command& command : commands()) {
    if (!command.internal) print_out(fmt::format("  {:<14} {}\n", command.name, command.summary));
  }
  const std::vector<std::string> external = external_commands();
  if (!external.empty()) print_out("\nMore commands, each with its own --help:\n");
  for (const std::string& name : external) print_out(fmt::format("  {}\n", name));
  print_out(
      "\nExamples:\n"
      "  trireme run -n 4 -- ./train --steps 100    four ranks on this host\n"
      "  trireme help run                           all about starting programs\n");
}

}  // namespace

int help_command(const std::vector<std::string>& arguments) {
  if (arguments.empty() || wants_help(arguments)) {
    print_overview();
    return 0;
  }
  for (const Command& command : commands()) {
    if (command.name == arguments[0] && command.name != "help") return command.run({"--help"});
  }
  return run_external_command(arguments[0], {"--help"});
}

}  // namespace trireme
