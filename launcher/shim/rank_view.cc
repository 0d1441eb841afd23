#include "launcher/shim/rank_view.h"

#include <fcntl.h>

#include <fmt/core.h>

#include "launcher/coordinator/job_record.h"
#include "runtime/platform/api/files.h"
#include "runtime/telemetry/api/inspect.h"

namespace trireme {
namespace {

// Closed communicators count: a rank that found the trouble first may be through with them.
// Enough to see where ranks disagree, little enough for many ranks.
constexpr std::size_t kViewedCalls = 32;

}  // namespace

RankView view_rank(const JobSpec& job, const RankProcess& rank, const ExitRecord::Entry& entry) {
  RankView view;
  view.rank = rank.rank;
  view.host = job.host;
  view.pid = entry.pid;
  view.state = rank.ended ? 'X' : process_state(entry.pid);
  if (rank.ended) {
    view.ended = entry.exit.to_string();
    const int code = entry.exit.shell_code();
    view.failed = code != 0 && code != kYieldExitCode;
  }
  if (!rank.recorder.valid()) return view;
  Result<Recording> recording = read_recording(rank.recorder.get(), {kViewedCalls, true});
  if (recording.is_ok()) view.recording = *std::move(recording);
  return view;
}

void RecorderSet::clear() {
  const std::lock_guard lock(mutex_);
  recorders_.clear();
}

void RecorderSet::add(int recorder_fd) {
  UniqueFd copy(recorder_fd < 0 ? -1 : ::fcntl(recorder_fd, F_DUPFD_CLOEXEC, 3));
  const std::lock_guard lock(mutex_);
  if (copy.valid()) recorders_.push_back(std::move(copy));
}

std::vector<Recording> RecorderSet::read() const {
  const std::lock_guard lock(mutex_);
  std::vector<Recording> recordings;
  for (const UniqueFd& recorder : recorders_) {
    Result<Recording> recording = read_recording(recorder.get(), {kViewedCalls, false});
    if (recording.is_ok() && recording->pid != 0) recordings.push_back(*std::move(recording));
  }
  return recordings;
}

Status write_recorders(const JobSpec& job, const message::StartAttempt& attempt,
                       const std::vector<RankProcess>& ranks) {
  if (job.output_directory.empty()) return {};
  for (const RankProcess& rank : ranks) {
    if (!rank.recorder.valid()) continue;
    TRIREME_ASSIGN_OR_RETURN(const Recording recording, read_recording(rank.recorder.get()));
    if (recording.pid == 0) continue;
    const std::string which = attempt.attempt == 0 ? "" : fmt::format(".attempt-{}", attempt.attempt);
    const std::string path = fmt::format("{}/recorder-rank-{}{}.json", job.output_directory, rank.rank, which);
    TRIREME_RETURN_IF_ERROR(write_file_atomically(path, recording_to_json(recording)));
  }
  return {};
}

}  // namespace trireme
