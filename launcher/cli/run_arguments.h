// The arguments of `trireme run`, taken apart.
#pragma once

#include <string>
#include <vector>

#include <trireme/base/status.h>

#include "launcher/cli/run_options.h"

namespace trireme {

struct RunArguments {
  SettingValues flags;
  std::string config_path;
  bool show_config = false;
  bool help = false;
  // From the first argument that is no flag of ours (or after "--"), byte for byte.
  std::vector<std::string> program;
};

// Errors: invalid_argument for unknown flags (with near matches) and missing values.
Result<RunArguments> parse_run_arguments(const std::vector<std::string>& arguments);
std::string run_help();

}  // namespace trireme
