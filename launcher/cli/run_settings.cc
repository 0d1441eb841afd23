// The settings of `trireme run`, their parsers, and how sources are merged.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include <trireme/platform/environment.h>

#include "launcher/cli/run_options.h"

namespace trireme {
namespace {

constexpr int kMaxRanks = 65'536;
constexpr double kMaxSeconds = 1e9;

Status parse_integer(const std::string& text, int low, int high, int& value) {
  const char* end = text.data() + text.size();
  int parsed = 0;
  const auto [rest, error] = std::from_chars(text.data(), end, parsed);
  if (error != std::errc() || rest != end || parsed < low || parsed > high) {
    return invalid_argument(fmt::format("expected an integer from {} to {}, got '{}'", low, high, text));
  }
  value = parsed;
  return Status::ok();
}

Status parse_seconds(const std::string& text, std::uint64_t& value_ms) {
  const char* end = text.data() + text.size();
  double seconds = 0;
  const auto [rest, error] = std::from_chars(text.data(), end, seconds);
  if (error != std::errc() || rest != end || !(seconds >= 0) || seconds > kMaxSeconds) {
    return invalid_argument(fmt::format("expected seconds, such as 10 or 0.5, got '{}'", text));
  }
  value_ms = static_cast<std::uint64_t>(seconds * 1000 + 0.5);
  return Status::ok();
}

Status parse_switch(const std::string& text, bool& value) {
  if (text != "true" && text != "false") return invalid_argument(fmt::format("expected true or false, got '{}'", text));
  value = text == "true";
  return Status::ok();
}

Status parse_text(const std::string& text, std::string& value) {
  if (text.empty()) return invalid_argument("expected a value, got an empty one");
  value = text;
  return Status::ok();
}

Status parse_stdin(const std::string& text, std::string& value) {
  int rank = 0;
  const bool word = text == "auto" || text == "none" || text == "all";
  if (!word && !parse_integer(text, 0, kMaxRanks - 1, rank).is_ok()) {
    return invalid_argument(fmt::format("expected a rank, all, none or auto, got '{}'", text));
  }
  value = text;
  return Status::ok();
}

}  // namespace

const std::vector<Setting>& run_settings() {
  using O = RunOptions;
  using S = const std::string&;
  static const std::vector<Setting> list = {
      {"ranks", "-n,--ranks", "N", "", "number of ranks",
       [](O& o, S v) { return parse_integer(v, 1, kMaxRanks, o.ranks); }},
      {"max-restarts", "--max-restarts", "R", "0", "start all ranks again after a failure, up to R times",
       [](O& o, S v) { return parse_integer(v, 0, 1'000'000, o.max_restarts); }},
      {"grace", "--grace", "SECONDS", "10", "from asking ranks to end (SIGTERM) to killing them",
       [](O& o, S v) { return parse_seconds(v, o.grace_ms); }},
      {"timeout", "--timeout", "SECONDS", "0", "end the job after this long, with exit code 124; 0: never",
       [](O& o, S v) { return parse_seconds(v, o.timeout_ms); }},
      {"export", "-x,--export", "NAME[=VALUE]", "",
       "give the ranks this variable (they have all of ours anyway); NAME alone must exist; repeatable",
       [](O& o, S v) {
         o.exports.push_back(v);
         return Status::ok();
       },
       true},
      {"output-dir", "--output-dir", "DIR", "",
       "write rank-K.out, rank-K.err, merged.log and attempt-A.json to DIR, too",
       [](O& o, S v) { return parse_text(v, o.output_directory); }},
      {"no-tag", "--no-tag", "", "false", "pass output through as it is, without 'host:rank ' before each line",
       [](O& o, S v) {
         Status s = parse_switch(v, o.tag_output);
         o.tag_output = !o.tag_output;
         return s;
       }},
      {"oversubscribe", "--oversubscribe", "", "false", "don't warn about more ranks than processors",
       [](O& o, S v) { return parse_switch(v, o.oversubscribe); }},
      {"stdin", "--stdin", "RANK|all|none|auto", "auto",
       "who reads standard input; auto: rank 0, but nobody if it is a terminal",
       [](O& o, S v) { return parse_stdin(v, o.stdin_choice); }},
      {"wdir", "--wdir", "DIR", "", "the ranks' working folder",
       [](O& o, S v) { return parse_text(v, o.working_directory); }},
      {"json", "--json", "FILE", "", "write a record of the job to FILE at its end; - for standard output",
       [](O& o, S v) { return parse_text(v, o.json_path); }},
      {"verbose", "--verbose", "", "false", "say how the job is started and contained",
       [](O& o, S v) { return parse_switch(v, o.verbose); }},
  };
  return list;
}

std::string setting_variable(std::string_view name) {
  std::string variable = "TRIREME_RUN_";
  for (const char c : name) variable += c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return variable;
}

SettingValues read_run_environment() {
  SettingValues values;
  for (const Setting& setting : run_settings()) {
    const std::string variable = setting_variable(setting.name);
    const auto value = environment(variable);
    if (!value) continue;
    std::vector<SettingValue>& list = values[std::string(setting.name)];
    // A repeatable setting's values are separated by commas, for want of anything better.
    std::string_view rest = *value;
    while (setting.repeatable && rest.find(',') != std::string_view::npos) {
      list.push_back({std::string(rest.substr(0, rest.find(','))), variable});
      rest.remove_prefix(rest.find(',') + 1);
    }
    list.push_back({std::string(rest), variable});
  }
  return values;
}

Result<ResolvedRun> resolve_run(const SettingValues& flags, const SettingValues& config,
                                const SettingValues& environment) {
  ResolvedRun run;
  for (const Setting& setting : run_settings()) {
    std::vector<SettingValue>& chosen = run.values[std::string(setting.name)];
    for (const SettingValues* source : {&flags, &config, &environment}) {
      const auto found = source->find(setting.name);
      if (!chosen.empty() || found == source->end()) continue;
      chosen = found->second;
    }
    for (const SettingValue& value : chosen) {
      TRIREME_RETURN_IF_ERROR(setting.apply(run.options, value.text).with_context(value.source));
    }
    if (chosen.empty()) chosen.push_back({std::string(setting.default_text), "default"});
  }
  if (run.options.ranks == 0) {
    return invalid_argument("how many ranks? Say -n N (or 'ranks' in a configuration file, or TRIREME_RUN_RANKS)");
  }
  return run;
}

}  // namespace trireme
