// trireme: the command line. See commands.h.
#include <string>
#include <vector>

#include "launcher/cli/commands.h"
#include "launcher/cli/external_command.h"
#include "launcher/system/descriptors.h"
#include "runtime/platform/api/console.h"

namespace {

int dispatch(const std::vector<std::string>& arguments) {
  using namespace trireme;
  if (arguments.empty()) {
    help_command({});
    return usage_error("no command was given");
  }
  std::string name = arguments[0];
  if (name == "-h" || name == "--help") name = "help";
  if (name == "--version" || name == "-V") name = "version";
  const std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  for (const Command& command : commands()) {
    if (command.name == name) return command.run(rest);
  }
  return run_external_command(name, rest);
}

}  // namespace

int main(int argc, char** argv) {
  trireme::normalize_process();
  return trireme::code_after_output(dispatch(std::vector<std::string>(argv + 1, argv + (argc > 0 ? argc : 1))));
}
