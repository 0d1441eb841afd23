// How the fast kernels split work over the pool.
#pragma once

#include <cstddef>
#include <cstdint>

#include <trireme/base/partition.h>
#include <trireme/device/thread_pool.h>

namespace trireme::kernels::fast {

// Elements below which handing a piece to another thread costs more than it gains.
inline constexpr std::int64_t kGrainElements = 16384;

// Calls body(begin, end) on pieces of [0, count) that are multiples of `unit` (but for the
// last) and hold about `grain` at least. Up to four pieces a thread, so that a thread that
// the system takes away for a moment does not hold up the others.
template <class Body>
void split(ThreadPool& pool, std::int64_t count, std::int64_t grain, std::int64_t unit, const Body& body) {
  if (count <= 0) return;
  const std::int64_t units = (count + unit - 1) / unit;
  const std::int64_t grain_units = grain < unit ? 1 : grain / unit;
  std::int64_t pieces = (units + grain_units - 1) / grain_units;
  const std::int64_t most = pool.threads() == 1 ? 1 : 4 * static_cast<std::int64_t>(pool.threads());
  if (pieces > most) pieces = most;
  pool.run(static_cast<std::size_t>(pieces), [&](std::size_t piece) {
    const Range range = balanced_part(units, static_cast<std::int64_t>(piece), pieces);
    const std::int64_t end = range.end * unit;
    body(range.begin * unit, end < count ? end : count);
  });
}

// Rows of `dim` elements.
template <class Body>
void split_rows(ThreadPool& pool, std::int64_t rows, std::int64_t dim, const Body& body) {
  const std::int64_t grain = dim <= 0 ? rows : kGrainElements / dim;
  split(pool, rows, grain, 1, body);
}

// A flat array; pieces are whole cache lines.
template <class Body>
void split_elements(ThreadPool& pool, std::int64_t count, const Body& body) {
  split(pool, count, kGrainElements, 16, body);
}

}  // namespace trireme::kernels::fast
