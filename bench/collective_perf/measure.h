// Measures one collective on one communicator: all sizes, types, operations and roots.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <trireme/base/status.h>
#include <trireme/collectives/communicator.h>

#include "bench/collective_perf/options.h"

namespace trireme::bench {

struct Timing {
  double time_us = 0;       // Of one operation, averaged over iterations and ranks.
  double algbw_gb_s = 0;    // Bytes of the row / time.
  double busbw_gb_s = 0;    // Scaled so that it compares across numbers of ranks.
  std::int64_t wrong = -1;  // Wrong elements over all ranks; -1: not checked.
};

struct Row {
  std::string op;  // "all_reduce"
  DataType type = DataType::f32;
  std::string redop;  // "sum", "none"
  int root = -1;      // -1: has none.
  int ranks = 0;
  std::uint64_t bytes = 0;  // As nccl-tests counts: of the larger buffer.
  std::uint64_t count = 0;  // Elements per rank.
  Timing out_of_place;
  Timing in_place;
  bool has_in_place = true;
};

// Collective over the communicator. `on_row` is called on every rank as rows come.
Status measure(Communicator& communicator, const Subject& subject, const PerfOptions& options,
               const std::function<void(const Row&)>& on_row);

}  // namespace trireme::bench
