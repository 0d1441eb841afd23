#include "runtime/rendezvous/rank_recorder.h"

#include <algorithm>

#include <fmt/core.h>
#include <trireme/platform/environment.h>

#include "runtime/platform/api/files.h"
#include "runtime/telemetry/api/inspect.h"
#include "runtime/telemetry/api/log_format.h"
#include "runtime/telemetry/api/recording.h"

namespace trireme::store {
namespace {

// Among these, metrics look for calls that have not ended.
constexpr std::size_t kCountedCalls = 64;

// "train --layers 4"
std::string command_line() {
  Result<std::string> text = read_file("/proc/self/cmdline");
  if (!text.is_ok()) return "";
  while (!text->empty() && text->back() == '\0') text->pop_back();
  std::replace(text->begin(), text->end(), '\0', ' ');
  return *std::move(text);
}

// What these variables hold was written by the launcher; nonsense is as good as nothing.
int number(std::string_view variable, int fallback, int lowest) {
  const auto value = environment_integer(variable, fallback, lowest, INT32_MAX);
  return value.is_ok() ? static_cast<int>(*value) : fallback;
}

void dump(const Recorder& recorder, const RecorderIdentity& identity) {
  const auto folder = environment("TRIREME_RECORDER_DIR");
  if (!folder || recorder.fd() < 0) return;
  std::string job = identity.job_id.empty() ? "job" : identity.job_id;
  std::replace(job.begin(), job.end(), '/', '_');
  const std::string path =
      fmt::format("{}/recorder-{}.rank-{}.epoch-{}.json", *folder, job, identity.rank, identity.epoch);
  const Result<Recording> recording = read_recording(recorder.fd());
  Status status = recording.status();
  if (status.is_ok()) status = make_directories(*folder);
  if (status.is_ok()) status = write_file_atomically(path, recording_to_json(*recording));
  if (!status.is_ok()) {
    TRIREME_LOG_WARN("recorder", "the flight recorder could not be written (TRIREME_RECORDER_DIR): {}",
                     status.to_string());
  }
}

}  // namespace

RankRecorder::RankRecorder(const PeerInfo& self, int size, const std::string& job_id, std::int64_t epoch,
                           bool is_process, FailureBoard& failures) {
  RecorderIdentity identity;
  identity.job_id = job_id;
  identity.host = self.host;
  identity.program = command_line();
  identity.rank = self.rank;
  identity.size = size;
  identity.node_rank = self.node_rank;
  identity.local_rank = self.local_rank;
  identity.epoch = epoch;
  identity.attempt = is_process ? number("TRIREME_ATTEMPT", 0, 0) : 0;
  // A rank alone makes no calls to others that somebody might want to read.
  const int nobody = size > 1 ? -1 : Recorder::kPrivate;
  const int inherited = is_process ? number("TRIREME_RECORDER_FD", -1, -1) : -1;
  recorder_ = Recorder::open(identity, inherited >= 0 ? inherited : nobody);
  const std::shared_ptr<Recorder> recorder = recorder_;
  subscription_ = failures.subscribe([recorder, identity](const Failure& failure) {
    recorder->count_failure(failure.status);
    if (recorder->record_failure(failure.status, failure.culprit_rank, failure.context)) dump(*recorder, identity);
  });
  if (is_process && !recorder_->is_shared()) export_metrics(identity);
}

void RankRecorder::export_metrics(const RecorderIdentity& identity) {
  MetricsOptions options = metrics_options_from_environment(identity.rank, identity.size, identity.local_rank);
  if (!options.wanted() || recorder_->fd() < 0) return;
  auto exporter = MetricsExporter::start(std::move(options), [recorder = recorder_] {
    const Result<Recording> recording = read_recording(recorder->fd(), {kCountedCalls, false});
    return recording.is_ok() ? metrics_text({*recording}) : std::string();
  });
  if (!exporter.is_ok()) {
    TRIREME_LOG_WARN("metrics", "rank {} exports no metrics: {}", identity.rank, exporter.status().to_string());
    return;
  }
  exporter_ = *std::move(exporter);
  const std::string url = exporter_->url();
  if (!url.empty()) fmt::print(stderr, "trireme: rank {}: metrics at {}\n", identity.rank, url);
}

RankRecorder::~RankRecorder() {
  exporter_.reset();
  subscription_.reset();
  recorder_->leave();
}

}  // namespace trireme::store
