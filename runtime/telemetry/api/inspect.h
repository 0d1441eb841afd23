// What runs on this host: the ranks whose recorders this user may read.
//
// A recorder's memory shows up among the descriptors of its rank and of the rank's shim
// (/proc/PID/fd), where the kernel lets its owner and root open it. So nothing has to
// answer: stopped, busy and dead ranks are read like all others, whoever started them.
// Thread safety: all functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <trireme/base/status.h>

#include "runtime/telemetry/api/recording.h"
#include "runtime/telemetry/api/verdict.h"

namespace trireme {

struct JobView {
  std::string job_id;  // "pid-4711" for a rank that is alone.
  int size = 0;
  std::string program;
  std::vector<RankView> ranks;     // Those found on this host, in order.
  std::vector<std::int64_t> pids;  // Processes that hold their recorders: ranks and shims.
};

// All jobs, in order of their ids. Only the newest attempt of each.
std::vector<JobView> find_jobs(const ReadLimits& limits = {});
// The one with that id (or the only one whose id begins so), or of which that process is
// a rank, shim or launcher. Errors: not_found that lists the jobs there are.
Result<JobView> choose_job(const std::vector<JobView>& jobs, std::string_view job_or_pid);

// State and start time of a process as /proc shows them; 'X' when it is gone or, with
// `start_ticks` other than 0, another process has its number.
char process_state(std::int64_t pid, std::uint64_t start_ticks = 0);

// A view for another process: one JSON object, with the recording in it.
std::string rank_view_to_json(const RankView& view);
// Errors: invalid_argument that names the field.
Result<RankView> rank_view_from_json(std::string_view text);

// As Chrome's and Perfetto's trace viewers read it: one process per rank, one track per
// communicator, messages apart; calls that have not ended reach to the moment of reading.
std::string trace_events(const std::vector<Recording>& recordings);

// Counters and gauges of the ranks in Prometheus' text format (version 0.0.4).
std::string metrics_text(const std::vector<Recording>& recordings);

}  // namespace trireme
