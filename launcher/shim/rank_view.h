// What a shim knows of its ranks when something went wrong: their processes and what
// their flight recorders hold, which outlive them. Free functions of values.
#pragma once

#include <mutex>
#include <vector>

#include <trireme/base/status.h>

#include "launcher/protocol/messages.h"
#include "launcher/shim/exit_record.h"
#include "launcher/shim/rank_process.h"
#include "runtime/telemetry/api/verdict.h"

namespace trireme {

// The rank as it is now, with the last calls of each communicator.
RankView view_rank(const JobSpec& job, const RankProcess& rank, const ExitRecord::Entry& entry);

// The recorders of an attempt, for the thread that exports metrics.
// Thread safety: all methods.
class RecorderSet {
 public:
  void clear();
  void add(int recorder_fd);  // Duplicates it; -1 is ignored.
  // Of the ranks that have joined.
  std::vector<Recording> read() const;

 private:
  mutable std::mutex mutex_;
  std::vector<UniqueFd> recorders_;
};

// Writes all that the recorders hold, a file per rank, into the job's output folder
// ("recorder-rank-3.json", later attempts "recorder-rank-3.attempt-1.json"), or nothing
// without one. Ranks that never joined have nothing to tell.
Status write_recorders(const JobSpec& job, const message::StartAttempt& attempt, const std::vector<RankProcess>& ranks);

}  // namespace trireme
