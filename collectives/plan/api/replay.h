// replay: how long a plan takes on a network with contention, and what holds it up.
//
// The alpha-beta model per link: a message of b bytes occupies each resource of its path
// for b / bandwidth, first come first served, one resource after the other without
// waiting for the whole (cut-through); the receiver has it after the latency and the time
// of the narrowest. Messages are sent as soon as the plan allows (no back-pressure). A
// rank has one processor: per message it takes message_s at either end, and its
// reductions and copies take their bytes times work_s_per_byte, one after the other. A
// round ends when all its operations are done. What is fetched of other ranks' memory is a
// message from there, what is placed there a message to there; fences are messages of no
// bytes. On one uniform link class this is
// simulate() (simulate.h), but for receivers, whose link is shared too.
//
// Symmetry: when shifting all ranks by s maps the network and the plan to themselves,
// ranks 0 .. s-1 stand for all: their clocks are what their images' clocks are. Nothing
// is taken on trust: every rank's program is compared with its representative's. Parts of
// a partition differ by one element at most; a symmetric replay takes the largest.
// Pure. REQUIRES: the plan passes check_plan.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <trireme/base/status.h>

#include "collectives/plan/api/network_model.h"
#include "collectives/plan/api/plan.h"

namespace trireme::plan {

struct ReplayOptions {
  bool use_symmetry = true;
  std::int64_t most_rounds = 0;  // Of all ranks replayed together; 0: no limit.
};

struct Replay {
  double seconds = 0;  // When the last rank is done.
  // The class of the resource that is busy longest ("nvlink", "local work"), or "latency"
  // when none is busy for half of the time.
  std::string bottleneck;
  std::string bottleneck_which;  // "from rank 3"; "" for latency.
  double bottleneck_share = 0;   // Busy part of the time, 0 .. 1.
  int classes = 0;               // Ranks replayed; less than all by symmetry.
  std::int64_t rounds = 0;       // Of the ranks replayed.
  std::int64_t messages = 0;
};

// `program_of(rank)` makes a rank's program. Errors: resource_exhausted when the plan has
// more rounds than allowed, saying how many; invalid_argument when ranks wait for ever.
Result<Replay> replay(const Request& request, const std::function<Program(int)>& program_of,
                      const NetworkModel& network, const ReplayOptions& options = {});

}  // namespace trireme::plan
