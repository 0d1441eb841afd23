// diagnose: who is to blame when a call does not finish, from what all ranks say.
//
// A pure function of the ranks' activities:
//  - two members made different calls with the same sequence number: mismatch, at once;
//  - at the deadline: follow who waits for whom, across communicators, from the rank
//    that asks to one that does not answer (stopped, unreachable), has not entered the
//    call, or is in it and moving. That rank is named, not the neighbour.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <trireme/base/status.h>

#include "collectives/execute/activity.h"

namespace trireme {

struct Question {
  std::uint64_t context = 0;
  std::vector<int> members;    // World ranks of the communicator.
  int self = 0;                // World rank that asks.
  std::string call;            // What does not finish: "all_reduce(...)".
  std::uint64_t sequence = 0;  // Of a collective; 0 for send and receive.
  std::vector<int> waits_for;  // World ranks.
  std::int64_t timeout_ms = 0;
  std::vector<std::string> names;  // Of every world rank: "rank 3 (node1, pid 4711)".
};

struct Verdict {
  Status status;     // ok: nothing is wrong (yet).
  int culprit = -1;  // World rank, -1 when none is to blame alone.
};

// Entry r of `activities`: what world rank r says, nullopt when it does not answer.
using Activities = std::vector<std::optional<RankActivity>>;

// Only what is wrong whatever the time: a mismatch.
Verdict find_mismatch(const Question& question, const Activities& activities);
// At the deadline: always an error.
Verdict find_culprit(const Question& question, const Activities& activities);

// "A calls all_reduce(...) as its 7th call; B calls broadcast(...) as its 7th call ...",
// the lower rank first, whoever noticed.
Status mismatch_status(const std::vector<std::string>& names, int rank_a, const Call& call_a, int rank_b,
                       const Call& call_b);

}  // namespace trireme
