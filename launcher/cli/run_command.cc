#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <numeric>

#include <trireme/platform/environment.h>
#include <trireme/telemetry/log.h>

#include "launcher/cli/commands.h"
#include "launcher/cli/run_arguments.h"
#include "launcher/coordinator/coordinator.h"
#include "launcher/coordinator/report.h"
#include "launcher/engines/local/local_engine.h"
#include "launcher/system/descriptors.h"
#include "runtime/platform/api/console.h"
#include "runtime/platform/api/files.h"
#include "runtime/platform/api/system.h"

namespace trireme {
namespace {

int fail(const Status& status) {
  print_error(fmt::format("trireme run: {}\n", status.message()));
  return exit_code(status.code());
}

Result<ResolvedRun> resolve(const RunArguments& arguments) {
  SettingValues config;
  if (!arguments.config_path.empty()) {
    TRIREME_ASSIGN_OR_RETURN(config, read_run_config(arguments.config_path));
  }
  TRIREME_ASSIGN_OR_RETURN(ResolvedRun run, resolve_run(arguments.flags, config, read_run_environment()));
  if (arguments.show_config) return run;
  if (arguments.program.empty()) {
    return invalid_argument("no program was given: trireme run -n N [FLAGS] -- PROGRAM [ARGUMENTS]");
  }
  run.options.program = arguments.program[0];
  run.options.arguments.assign(arguments.program.begin() + 1, arguments.program.end());
  return run;
}

void show_config(const ResolvedRun& run) {
  for (const Setting& setting : run_settings()) {
    for (const SettingValue& value : run.values.at(std::string(setting.name))) {
      print_out(fmt::format("{:<14} = {:<24} # {}\n", setting.name, value.text, value.source));
    }
  }
}

// Fails before any rank starts, not in the middle of the job.
Status check_folders(const RunOptions& options) {
  if (!options.working_directory.empty()) {
    TRIREME_ASSIGN_OR_RETURN(const FileInfo info, file_info(options.working_directory));
    if (!info.is_directory) return not_found(fmt::format("--wdir {}: no such folder", options.working_directory));
  }
  if (!options.json_path.empty() && options.json_path != "-") {
    TRIREME_RETURN_IF_ERROR(check_can_write(options.json_path).with_context("--json"));
  }
  if (options.output_directory.empty()) return Status::ok();
  const std::string context = fmt::format("--output-dir {}: cannot be written", options.output_directory);
  TRIREME_RETURN_IF_ERROR(make_directories(options.output_directory).with_context(context));
  const Result<File> probe = File::open(options.output_directory + "/merged.log", File::Mode::append);
  return probe.status().with_context(context);
}

Status choose_stdin(const RunOptions& options, JobSpec& job) {
  const std::string& choice = options.stdin_choice;
  if (choice == "none" || (choice == "auto" && stream_kind(0).terminal)) return Status::ok();
  job.stdin_mode = choice == "all" ? StdinMode::all : StdinMode::one;
  if (choice == "all" || choice == "auto") return Status::ok();
  std::from_chars(choice.data(), choice.data() + choice.size(), job.stdin_rank);
  if (job.stdin_rank < options.ranks) return Status::ok();
  return invalid_argument(fmt::format("--stdin {}: the ranks are 0 to {}", choice, options.ranks - 1));
}

Result<JobSpec> make_job(const RunOptions& options) {
  TRIREME_RETURN_IF_ERROR(check_folders(options));
  const bool files = !options.output_directory.empty();
  TRIREME_RETURN_IF_ERROR(check_descriptors(descriptors_of_shim(static_cast<std::size_t>(options.ranks), files)));
  JobSpec job;
  job.job_id = random_hex(4);
  job.program = options.program;
  job.arguments = options.arguments;
  TRIREME_ASSIGN_OR_RETURN(job.environment, exported_environment(environment_block(), options.exports));
  job.working_directory = options.working_directory;
  job.host = host_name();
  job.world_size = options.ranks;
  job.ranks.resize(static_cast<std::size_t>(options.ranks));
  std::iota(job.ranks.begin(), job.ranks.end(), 0);
  job.tag_output = options.tag_output;
  job.output_directory = options.output_directory;
  TRIREME_RETURN_IF_ERROR(choose_stdin(options, job));
  return job;
}

CoordinatorOptions coordinator_options(const RunOptions& options, const JobSpec& job) {
  CoordinatorOptions coordinator;
  coordinator.world_size = options.ranks;
  coordinator.host = job.host;
  coordinator.max_restarts = options.max_restarts;
  coordinator.grace_ms = options.grace_ms;
  coordinator.settle_ms = std::min(coordinator.settle_ms, options.grace_ms);
  coordinator.timeout_ms = options.timeout_ms;
  return coordinator;
}

void say_before(const RunOptions& options, const JobSpec& job) {
  const int processors = usable_cpu_count();
  if (options.ranks > processors && !options.oversubscribe) {
    print_error(fmt::format("trireme: {} ranks share {} usable processor{} (--oversubscribe silences this)\n",
                            options.ranks, processors, processors == 1 ? "" : "s"));
  }
  if (!options.verbose) return;
  print_error(fmt::format(
      "trireme: job {} on host {}: {} ranks of {}\n"
      "trireme: contained by reaping: every process that a rank starts, detached or not, stays below the shim, "
      "which kills what is left; if the shim dies, the launcher does. Limits: a set-uid program of another "
      "user cannot be killed without root; kill -9 for launcher and shim at once ends the ranks, but not what "
      "they detached\n",
      job.job_id, job.host, job.world_size, job.program));
}

Status write_record(const RunOptions& options, const std::string& json) {
  if (options.json_path.empty()) return Status::ok();
  if (options.json_path != "-") return write_file_atomically(options.json_path, json).with_context("--json");
  print_out(json);
  return Status::ok();
}

int run_job(const RunOptions& options) {
  const Result<JobSpec> job = make_job(options);
  if (!job.is_ok()) return fail(job.status());
  std::vector<int> received = stop_signals();
  received.insert(received.end(), forwarded_signals().begin(), forwarded_signals().end());
  block_signals({SIGPIPE});
  // The store warns of every rank that dies; here the failure's summary says the same.
  if (!environment("TRIREME_LOG")) set_log_filter("store=error");
  Result<SignalReceiver> signals = SignalReceiver::create(received, {SIGHUP});
  if (!signals.is_ok()) return fail(signals.status());
  say_before(options, *job);
  Result<ShimConnection> shim = start_local_shim();
  if (!shim.is_ok()) return fail(shim.status());
  const Result<JobRecord> record =
      Coordinator::run(*job, coordinator_options(options, *job), std::move(*signals), std::move(*shim));
  if (!record.is_ok()) return fail(record.status());
  print_error(failure_summary(*record, *job));
  if (const Status written = write_record(options, record_as_json(*record, *job)); !written.is_ok()) {
    fail(written);
    return record->exit_code != 0 ? record->exit_code : 1;
  }
  return record->exit_code;
}

}  // namespace

int run_command(const std::vector<std::string>& raw) {
  const Result<RunArguments> arguments = parse_run_arguments(raw);
  if (!arguments.is_ok()) return fail(arguments.status());
  if (arguments->help) {
    print_out(run_help());
    return 0;
  }
  const Result<ResolvedRun> run = resolve(*arguments);
  if (!run.is_ok()) return fail(run.status());
  if (arguments->show_config) {
    show_config(*run);
    return 0;
  }
  return run_job(run->options);
}

}  // namespace trireme
