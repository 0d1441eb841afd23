// Verdict: what is wrong with a job, from what its ranks' recorders and processes say.
//
// A pure function of its arguments. In order of weight:
//   ended     a rank's process has ended without saying why
//   stopped   a rank's process is stopped (SIGSTOP, a debugger)
//   disagree  ranks made different calls under one number: both are shown side by side
//   missing   ranks have not entered a call in which others have waited too long
//   slow      all are in a call that takes too long, and this rank is the one waited for
//   circle    ranks wait for each other
// A rank that only waits for another is never blamed: who waits for whom is followed
// across communicators. Readings of ranks are not simultaneous; what is compared is what
// time does not change, or has lasted longer than the patience.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/telemetry/api/recording.h"

namespace trireme {

// One rank as its host sees it.
struct RankView {
  int rank = 0;
  std::string host;
  std::int64_t pid = 0;
  // As in /proc/PID/stat: R running, S sleeping, D waiting in the kernel, T or t stopped,
  // Z ended and not collected; X: gone.
  char state = '?';
  std::string ended;    // "signal 9 (SIGKILL)": how it ended, when that is known.
  bool failed = false;  // It ended of itself, in a way that counts as a failure.
  std::optional<Recording> recording;

  std::string name() const;  // "rank 3 (node1, pid 4711)"
  bool is_stopped() const { return state == 'T' || state == 't'; }
  bool has_joined() const { return recording.has_value() && recording->pid != 0; }
};

struct VerdictOptions {
  std::uint64_t patience_ms = 2000;  // How long a call may stand still.
};

enum class FindingKind : std::uint8_t { ended, stopped, disagree, missing, slow, circle };
std::string_view to_string(FindingKind kind);

struct Finding {
  FindingKind kind = FindingKind::ended;
  std::vector<int> ranks;     // World ranks to blame.
  std::uint64_t context = 0;  // 0: not about one communicator.
  std::string text;           // A sentence for people.
};

struct JobVerdict {
  std::vector<Finding> findings;      // Empty: all is well.
  std::vector<std::string> progress;  // A line per communicator in trouble: who has finished which call.
  bool is_well() const { return findings.empty(); }
};

JobVerdict judge(const std::vector<RankView>& ranks, const VerdictOptions& options = {});

// Every line of the verdict: the findings, then the progress.
std::vector<std::string> verdict_lines(const JobVerdict& verdict);
// "ranks 0-2, 5", "rank 3".
std::string rank_list(std::vector<int> ranks);

}  // namespace trireme
