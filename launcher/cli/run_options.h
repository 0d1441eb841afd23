// What `trireme run` was asked to do, and where each setting came from.
//
// A setting is one line of one table: its name, its parser, its help. The same table
// serves flags (--max-restarts), the configuration file (max-restarts under [run]) and
// the environment (TRIREME_RUN_MAX_RESTARTS); the first of these that has a value wins.
// Thread safety: values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <trireme/base/status.h>

#include "launcher/protocol/messages.h"

namespace trireme {

struct RunOptions {
  int ranks = 0;
  int max_restarts = 0;
  std::uint64_t grace_ms = 10'000;
  std::uint64_t timeout_ms = 0;
  std::vector<std::string> exports;  // As given: NAME or NAME=VALUE.
  std::string output_directory;
  bool tag_output = true;
  bool oversubscribe = false;
  std::string stdin_choice = "auto";  // auto, none, all or a rank.
  std::string working_directory;
  std::string json_path;
  bool verbose = false;
  std::string program;
  std::vector<std::string> arguments;
};

struct Setting {
  std::string_view name;
  std::string_view flags;  // As CLI11 wants them: "-n,--ranks".
  std::string_view value;  // What a value is called in the help; "" for a switch.
  std::string_view default_text;
  std::string_view help;
  Status (*apply)(RunOptions& options, const std::string& value);
  bool repeatable = false;
};
const std::vector<Setting>& run_settings();
// "max-restarts" -> "TRIREME_RUN_MAX_RESTARTS"
std::string setting_variable(std::string_view name);

// One value of a setting and where it was found ("--grace", "run.toml:3", "TRIREME_RUN_GRACE").
struct SettingValue {
  std::string text;
  std::string source;
};
using SettingValues = std::map<std::string, std::vector<SettingValue>, std::less<>>;

// The values in the [run] table of a TOML file, by setting.
// Errors: not_found and the like for the file; invalid_argument with file and line for
// what is no TOML, for a name that is no setting and for a value of the wrong kind.
Result<SettingValues> read_run_config(const std::string& path);
// Those in the environment.
SettingValues read_run_environment();

// Everything the user said, merged: `flags` before `config` before `environment`.
struct ResolvedRun {
  RunOptions options;
  SettingValues values;  // Every setting, defaults included (source "default").
};
// Errors: invalid_argument naming source, value and what was expected.
Result<ResolvedRun> resolve_run(const SettingValues& flags, const SettingValues& config,
                                const SettingValues& environment);

// The ranks' environment: ours, changed as -x says.
// Errors: invalid_argument for a name that is none, is missing, or is set by the launcher.
Result<std::vector<std::string>> exported_environment(std::vector<std::string> base,
                                                      const std::vector<std::string>& exports);

}  // namespace trireme
