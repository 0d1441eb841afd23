// trireme ranks: what every rank of a running job does, and what is wrong with it.
#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include <trireme/platform/clock.h>

#include "launcher/cli/commands.h"
#include "launcher/cli/ranks_view.h"
#include "launcher/system/descriptors.h"
#include "runtime/platform/api/console.h"

namespace trireme {
namespace {

constexpr const char* kFooter =
    "Reads the ranks' flight recorders (memory that each rank writes anyway), so stopped, busy and dead ranks\n"
    "are shown like all others, and nothing has to be restarted or configured. You see your own jobs on this\n"
    "host; root sees everybody's.\n"
    "\n"
    "STATE is the kernel's: R runs, S sleeps, D waits in the kernel, T is stopped, Z has ended, X is gone.\n"
    "Exit codes: 0 all is well, 1 a problem was found, 2 wrong usage or no such job.\n"
    "\n"
    "Examples:\n"
    "  trireme ranks                  all jobs\n"
    "  trireme ranks 3f2a --watch     one job, again and again\n"
    "  trireme ranks 4711 --json      the job of which process 4711 is a rank\n"
    "  trireme ranks --metrics        counters in Prometheus' text format\n";

struct RanksOptions {
  std::string which;
  bool json = false;
  bool watch = false;
  bool metrics = false;
  double interval_s = 1;
  double patience_s = 2;
};

Result<std::vector<JobView>> look(const RanksOptions& options) {
  std::vector<JobView> jobs = find_jobs();
  if (!options.which.empty()) {
    TRIREME_ASSIGN_OR_RETURN(JobView job, choose_job(jobs, options.which));
    return std::vector<JobView>{std::move(job)};
  }
  if (jobs.empty()) return not_found("no ranks of this user run on this host");
  return jobs;
}

void show_metrics(const std::vector<JobView>& jobs) {
  std::vector<Recording> recordings;
  for (const JobView& job : jobs) {
    for (const RankView& rank : job.ranks) {
      if (rank.has_joined()) recordings.push_back(*rank.recording);
    }
  }
  print_out(metrics_text(recordings));
}

// Returns the exit code.
int show(const RanksOptions& options, const std::vector<JobView>& jobs) {
  if (options.metrics) {
    show_metrics(jobs);
    return 0;
  }
  std::vector<JudgedJob> judged;
  bool well = true;
  for (const JobView& job : jobs) {
    judged.push_back({job, judge(job.ranks, {static_cast<std::uint64_t>(options.patience_s * 1000)})});
    well &= judged.back().verdict.is_well();
  }
  if (options.json) {
    print_out(ranks_json(judged));
    return well ? 0 : 1;
  }
  for (std::size_t i = 0; i < judged.size(); ++i)
    print_out(fmt::format("{}{}", i == 0 ? "" : "\n", ranks_table(judged[i])));
  return well ? 0 : 1;
}

int run(const RanksOptions& options) {
  const bool clear = options.watch && !options.json && stream_kind(1).terminal;
  int code = 0;
  for (bool first = true;; first = false) {
    const Result<std::vector<JobView>> jobs = look(options);
    if (!jobs.is_ok() && !first) return code;  // The job has ended.
    if (!jobs.is_ok()) {
      print_error(fmt::format("trireme ranks: {}\n", jobs.status().message()));
      return exit_code(jobs.status().code());
    }
    if (clear) print_out("\x1b[H\x1b[2J");
    code = show(options, *jobs);
    std::fflush(stdout);
    if (!options.watch) return code;
    system_clock().sleep_ns(static_cast<std::uint64_t>(options.interval_s * 1e9));
  }
}

}  // namespace

int ranks_command(const std::vector<std::string>& arguments) {
  RanksOptions options;
  CLI::App app("Shows what the ranks of a running job do, and finds those that hold up the others.", "trireme ranks");
  app.footer(kFooter);
  app.add_option("job", options.which, "a job's id or its beginning, or the number of a process of it")
      ->type_name("JOB|PID");
  app.add_flag("--json", options.json, "print one JSON object");
  app.add_flag("--metrics", options.metrics, "print counters instead, in Prometheus' text format");
  app.add_flag("--watch", options.watch, "again every --interval seconds, until the job ends");
  app.add_option("--interval", options.interval_s, "seconds between two looks")->check(CLI::Range(0.05, 3600.0));
  app.add_option("--patience", options.patience_s, "seconds that a call may stand still and be well")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    print_out(app.help());
    return 0;
  } catch (const CLI::ParseError& error) {
    return usage_error(fmt::format("ranks: {}; see trireme ranks --help", error.what()));
  }
  return run(options);
}

}  // namespace trireme
