// A study: one collective call replayed with every algorithm on one network.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <trireme/base/status.h>
#include <trireme/topology/topology.h>

#include "collectives/algorithms/algorithm.h"
#include "collectives/plan/api/replay.h"

namespace trireme::simulate {

struct Question {
  plan::Collective collective = plan::Collective::all_reduce;
  int ranks = 2;
  std::uint64_t bytes = 0;  // Of the larger buffer of a rank, as nccl-tests counts.
  std::int64_t element_bytes = 4;
  bool wide = false;      // Sums of a low-precision type: partial results travel as f32.
  std::string algorithm;  // "" studies all.
  plan::ReplayOptions options;
};

struct Candidate {
  std::string algorithm;
  std::string refused;  // Why there is no result; "" when there is one.
  plan::Replay replay;
  double busbw_gb_s = 0;
};

// The collective of that name. Errors: invalid_argument listing them.
Result<plan::Collective> parse_collective(std::string_view name);
// The call whose larger buffer has `bytes` (rounded down to whole elements).
plan::Request request_of(const Question& question);
// Bus bandwidth in GB/s by nccl-tests' formulas, 0 for a barrier.
double bus_bandwidth(const plan::Request& request, double seconds);

// Candidates in the order of the table of algorithms, those refused included.
// Errors: invalid_argument (no such algorithm, too few ranks in the topology).
Result<std::vector<Candidate>> study(const Question& question, const plan::NetworkModel& network);
// The fastest; nullptr when all are refused.
const Candidate* best_of(const std::vector<Candidate>& candidates);

}  // namespace trireme::simulate
