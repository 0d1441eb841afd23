// trireme trace: what ranks did, as a time line for Perfetto and chrome://tracing.
#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "launcher/cli/commands.h"
#include "runtime/platform/api/console.h"
#include "runtime/platform/api/files.h"
#include "runtime/telemetry/api/inspect.h"

namespace trireme {
namespace {

constexpr const char* kFooter =
    "Open the result in https://ui.perfetto.dev or chrome://tracing: one process per rank, one track per\n"
    "communicator, the last 1024 calls of each.\n"
    "\n"
    "Examples:\n"
    "  trireme trace 3f2a -o trace.json                     a running job (see trireme ranks)\n"
    "  trireme trace runs/7/recorder-rank-*.json -o t.json  what a failed job left in its --output-dir\n";

// A file if there is one of that name, a job or process otherwise.
Status add_recordings(const std::string& source, std::vector<Recording>& recordings) {
  TRIREME_ASSIGN_OR_RETURN(const FileInfo info, file_info(source));
  if (info.exists) {
    TRIREME_ASSIGN_OR_RETURN(const std::string text, read_file(source));
    Result<Recording> recording = recording_from_json(text);
    if (!recording.is_ok()) return recording.status().with_context(source);
    recordings.push_back(*std::move(recording));
    return {};
  }
  TRIREME_ASSIGN_OR_RETURN(const JobView job, choose_job(find_jobs(), source));
  for (const RankView& rank : job.ranks) {
    if (rank.has_joined()) recordings.push_back(*rank.recording);
  }
  return {};
}

Status write(const std::string& path, const std::vector<std::string>& sources) {
  std::vector<Recording> recordings;
  for (const std::string& source : sources) TRIREME_RETURN_IF_ERROR(add_recordings(source, recordings));
  if (recordings.empty()) return not_found("no rank of it has joined the job yet");
  const std::string text = trace_events(recordings);
  if (path != "-") return write_file_atomically(path, text);
  print_out(text);
  return {};
}

}  // namespace

int trace_command(const std::vector<std::string>& arguments) {
  std::string output;
  std::vector<std::string> sources;
  CLI::App app("Writes what ranks did as a time line (trace-event JSON).", "trireme trace");
  app.footer(kFooter);
  app.add_option("source", sources, "a running job's id, a process of it, or files of recorders")
      ->required()
      ->type_name("JOB|PID|FILE ...");
  app.add_option("-o,--output", output, "where to write; - is standard output")->required()->type_name("FILE");
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    print_out(app.help());
    return 0;
  } catch (const CLI::ParseError& error) {
    return usage_error(fmt::format("trace: {}; see trireme trace --help", error.what()));
  }
  const Status status = write(output, sources);
  if (status.is_ok()) return 0;
  print_error(fmt::format("trireme trace: {}\n", status.message()));
  return exit_code(status.code());
}

}  // namespace trireme
