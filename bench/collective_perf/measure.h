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
  // Of one operation, averaged over the ranks; and over the iterations, or the median of
  // those with PerfOptions::rewrites.
  double time_us = 0;
  double algbw_gb_s = 0;    // Bytes of the row / time.
  double busbw_gb_s = 0;    // Scaled so that it compares across numbers of ranks.
  double limit_gb_s = -1;   // The busbw of the same work without synchronisation; -1: not measured.
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
  std::string backend;      // Who moved the data.
  double ratio = 1;         // Of its out-of-place time to the first backend's, of the same work.
  Timing out_of_place;
  Timing in_place;
  bool has_in_place = true;
};

// Every row is measured on each of `contenders` in turn, communicators of the same ranks on
// different backends; `control` is one of our own, on which ranks meet between. What a
// backend does not support (Status unsupported) `on_refusal` gets instead of a row.
// Collective over the communicators; the callbacks are called on every rank.
struct MeasureCallbacks {
  std::function<void(const Row&)> on_row;
  std::function<void(const Status&)> on_refusal;
};
Status measure(Communicator& control, const std::vector<Communicator*>& contenders, const Subject& subject,
               const PerfOptions& options, const MeasureCallbacks& callbacks);

}  // namespace trireme::bench
