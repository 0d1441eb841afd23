// Limit: what the memory of this host allows a collective: all ranks at once do its loads,
// additions and stores, with no synchronisation between them.
//
// The work is that of the fewest bytes: each rank reduces its slice of all inputs and
// stores the result wherever it belongs. Additions are of 64-bit integers, whatever the
// type. Plain stores and stores past the caches are both timed; the faster one counts.
// Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "bench/collective_perf/subject.h"

namespace trireme::bench {

// One rank's share: `sources` streams of `bytes` each are added up and stored in `targets`
// streams.
struct LimitWork {
  int sources = 1;
  int targets = 1;
  std::uint64_t bytes = 0;
};

// `bytes` as in a row: of the larger buffer.
LimitWork limit_work(const Subject& subject, int ranks, std::uint64_t bytes, bool in_place);

// `bytes` at each of `sources` are added up and the sum is stored at each of `targets`, which
// may be the sources. Nothing else may overlap. REQUIRES: at least one source.
struct Streams {
  std::span<const std::byte* const> sources;
  std::span<std::byte* const> targets;
  std::uint64_t bytes = 0;
};
void add_streams(const Streams& streams, bool past_caches);

}  // namespace trireme::bench
