#include "launcher/cli/external_command.h"

#include <fmt/core.h>

#include "launcher/cli/commands.h"
#include "launcher/cli/near_matches.h"
#include "launcher/system/descriptors.h"
#include "runtime/platform/api/files.h"

namespace trireme {
namespace {

constexpr std::string_view kPrefix = "trireme-";

// bin/trireme -> libexec/trireme
std::string external_folder() {
  const Result<std::string> self = executable_path();
  if (!self.is_ok()) return "";
  const std::size_t name = self->rfind('/');
  const std::size_t folder = name == 0 || name == std::string::npos ? 0 : self->rfind('/', name - 1);
  return self->substr(0, folder) + "/libexec/trireme";
}

int unknown_command(const std::string& name) {
  std::vector<std::string> known = external_commands();
  for (const Command& command : commands()) {
    if (!command.internal) known.emplace_back(command.name);
  }
  return usage_error(
      fmt::format("unknown command '{}'{}; 'trireme help' lists the commands", name, did_you_mean(name, known)));
}

}  // namespace

std::vector<std::string> external_commands() {
  std::vector<std::string> names;
  const std::string folder = external_folder();
  const Result<std::vector<std::string>> files = list_directory(folder);
  if (!files.is_ok()) return names;
  for (const std::string& file : *files) {
    const bool ours = file.size() > kPrefix.size() && file.compare(0, kPrefix.size(), kPrefix) == 0;
    if (ours && is_executable_file(folder + "/" + file)) names.push_back(file.substr(kPrefix.size()));
  }
  return names;
}

int run_external_command(const std::string& name, const std::vector<std::string>& arguments) {
  const std::string path = external_folder() + "/" + std::string(kPrefix) + name;
  const bool plausible = !name.empty() && name[0] != '-' && name.find('/') == std::string::npos;
  if (!plausible || !is_executable_file(path)) return unknown_command(name);
  std::vector<std::string> all = {path};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return usage_error(execute(path, all).message());
}

}  // namespace trireme
