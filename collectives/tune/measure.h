// What `trireme tune` measures: a path between two ranks, local work, and every algorithm
// at every size.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <trireme/base/status.h>
#include <trireme/rendezvous/world.h>

#include "collectives/select/tuning.h"

namespace trireme::tune {

struct MeasureOptions {
  std::uint64_t smallest_bytes = 8;
  std::uint64_t largest_bytes = 16 << 20;
  std::int64_t budget_ms = 15;  // Of one algorithm at one size.
};

// Collective over the world, whose ranks are on one host. Rank 0's result counts; the
// others' times are the same but for what only rank 0 measures (the path, local work).
// `progress` is called with one line per collective and algorithm on rank 0.
Result<TuningTable> measure(const std::shared_ptr<World>& world, const MeasureOptions& options,
                            const std::function<void(const std::string&)>& progress);

}  // namespace trireme::tune
