#include "launcher/cli/run_arguments.h"

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <algorithm>

#include "launcher/cli/near_matches.h"

namespace trireme {
namespace {

struct FlagStorage {
  std::map<std::string, std::vector<std::string>, std::less<>> values;
  std::map<std::string, bool, std::less<>> switches;
  RunArguments result;
};

class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string) const override {
    return "Usage: trireme run -n N [FLAGS] -- PROGRAM [ARGUMENTS]\n";
  }
};

void add_flags(CLI::App& app, FlagStorage& storage) {
  for (const Setting& setting : run_settings()) {
    const std::string name(setting.name);
    std::string help(setting.help);
    if (!setting.default_text.empty() && !setting.value.empty()) help += fmt::format(" [{}]", setting.default_text);
    if (setting.value.empty()) {
      app.add_flag(std::string(setting.flags), storage.switches[name], help);
      continue;
    }
    CLI::Option* option = app.add_option(std::string(setting.flags), storage.values[name], help);
    option->type_name(std::string(setting.value))->expected(1);
    option->multi_option_policy(setting.repeatable ? CLI::MultiOptionPolicy::TakeAll
                                                   : CLI::MultiOptionPolicy::TakeLast);
  }
  app.add_option("--config", storage.result.config_path, "read settings from this TOML file")->type_name("FILE");
  app.add_flag("--show-config", storage.result.show_config, "print every setting with its source, and end");
}

void describe(CLI::App& app) {
  app.name("trireme run");
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_help_flag("-h,--help", "print this help");
  app.footer(
      "A setting comes from its flag, else from the [run] table of the --config file, else from the\n"
      "environment (--max-restarts: TRIREME_RUN_MAX_RESTARTS), else its default holds.\n\n"
      "Exit code: 0 when every rank ended with 0; otherwise that of the first rank to fail (128 + signal);\n"
      "75 when ranks yielded; 124 after --timeout; 2 for usage errors and programs that cannot be started.\n\n"
      "Examples:\n"
      "  trireme run -n 4 -- ./train --steps 100\n"
      "  trireme run -n 4 --max-restarts 3 --output-dir logs -- ./train    logs per rank, restarts\n"
      "  trireme run -n 2 -x OMP_NUM_THREADS=4 -- python3 train.py         any program will do\n"
      "  trireme run -n 2 --stdin 1 -- ./consume < data                    rank 1 reads the file\n"
      "  trireme run -n 8 --timeout 60 --json record.json -- ./check       for scripts");
}

// Whether a flag takes the argument after it: "--grace", "-n", but not "--grace=5" or "-n4".
bool takes_next(const CLI::App& app, const std::string& argument) {
  const CLI::Option* option = app.get_option_no_throw(argument);
  return option != nullptr && option->get_expected_min() > 0;
}

// Our own flags end where the program begins. Found here and not by CLI11, so that the
// program's arguments reach it byte for byte.
std::size_t program_position(const CLI::App& app, const std::vector<std::string>& arguments) {
  std::size_t i = 0;
  while (i < arguments.size() && arguments[i].size() > 1 && arguments[i][0] == '-' && arguments[i] != "--") {
    i += takes_next(app, arguments[i]) ? 2 : 1;
  }
  return std::min(i, arguments.size());
}

std::vector<std::string> flag_names() {
  std::vector<std::string> names = {"--help", "--config", "--show-config"};
  for (const Setting& setting : run_settings()) names.push_back("--" + std::string(setting.name));
  return names;
}

Status unknown_flags(const std::vector<std::string>& flags) {
  const std::string& first = flags.front();
  const std::string name = first.substr(0, first.find('='));
  return invalid_argument(
      fmt::format("unknown flag {}{}; 'trireme run --help' lists all", name, did_you_mean(name, flag_names())));
}

Status run_parser(CLI::App& app, std::vector<std::string> flags) {
  app.allow_extras();
  std::reverse(flags.begin(), flags.end());  // CLI11 wants them so.
  try {
    app.parse(std::move(flags));
  } catch (const CLI::ParseError& error) {
    if (error.get_name() != "CallForHelp") return invalid_argument(error.what());
    return Status::ok();
  }
  return app.remaining().empty() ? Status::ok() : unknown_flags(app.remaining());
}

}  // namespace

Result<RunArguments> parse_run_arguments(const std::vector<std::string>& arguments) {
  CLI::App app("Starts PROGRAM as N ranks on this host, carries their output, and answers for their end.");
  FlagStorage storage;
  describe(app);
  add_flags(app, storage);
  std::vector<std::string> ours = arguments;
  // mpirun's spelling of -n.
  for (std::string& argument : ours) {
    if (argument == "--") break;
    if (argument == "-np" || argument == "--np") argument = "-n";
    if (argument.empty() || argument[0] != '-') break;
  }
  const std::size_t program = program_position(app, ours);
  ours.resize(program);
  TRIREME_RETURN_IF_ERROR(run_parser(app, ours));
  for (auto& [name, values] : storage.values) {
    for (std::string& value : values) storage.result.flags[name].push_back({std::move(value), "--" + name});
  }
  for (const auto& [name, on] : storage.switches) {
    if (on) storage.result.flags[name].push_back({"true", "--" + name});
  }
  storage.result.help = app.get_help_ptr()->count() > 0;
  const bool separator = program < arguments.size() && arguments[program] == "--";
  storage.result.program.assign(arguments.begin() + static_cast<std::ptrdiff_t>(program + (separator ? 1 : 0)),
                                arguments.end());
  return std::move(storage.result);
}

std::string run_help() {
  CLI::App app("Starts PROGRAM as N ranks on this host, carries their output, and answers for their end.");
  FlagStorage storage;
  describe(app);
  add_flags(app, storage);
  app.get_formatter()->column_width(34);
  return app.help();
}

}  // namespace trireme
