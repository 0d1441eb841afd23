// trireme report RUN_DIR: draws the run in RUN_DIR as RUN_DIR/report.html.
#include <cstdio>
#include <string>

#include "examples/report/report.h"
#include "runtime/platform/api/files.h"

namespace {

constexpr const char* kHelp =
    "Usage: trireme report RUN_DIR [OUTPUT.html]\n\n"
    "Draws the loss, throughput, checkpoints and failures of a training run, read from\n"
    "RUN_DIR/metrics.jsonl and RUN_DIR/events.jsonl, as one HTML page that needs no network\n"
    "(RUN_DIR/report.html, or OUTPUT.html).\n\n"
    "Example:\n  trireme report runs/quickstart\n";

int fail(const trireme::Status& status) {
  std::fprintf(stderr, "trireme report: %s\n", status.message().c_str());
  return trireme::exit_code(status.code());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string first = argc > 1 ? argv[1] : "";
  if (first == "--help" || first == "-h") {
    std::fputs(kHelp, stdout);
    return 0;
  }
  if (argc < 2 || argc > 3 || first.starts_with("-")) {
    std::fprintf(stderr, "trireme report: expected a run folder\n\n%s", kHelp);
    return 2;
  }
  const trireme::Result<trireme::RunRecord> record = trireme::read_run_record(first);
  if (!record.is_ok()) return fail(record.status());
  const std::string path = argc == 3 ? argv[2] : first + "/report.html";
  const trireme::Status written = trireme::write_file_atomically(path, trireme::report_to_html(*record));
  if (!written.is_ok()) return fail(written);
  std::printf("%s\n", path.c_str());
  return 0;
}
