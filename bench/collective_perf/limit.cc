#include "bench/collective_perf/limit.h"

#include <algorithm>

#include "bench/collective_perf/limit_loops.h"

namespace trireme::bench {
namespace {

using plan::Collective;

bool is_aligned(const std::byte* target) {
  return reinterpret_cast<std::uintptr_t>(target) % sizeof(Half) == 0;
}

}  // namespace

LimitWork limit_work(const Subject& subject, int ranks, std::uint64_t bytes, bool in_place) {
  const std::uint64_t slice = bytes / static_cast<std::uint64_t>(ranks);
  if (subject.messages) return {1, 1, bytes};
  switch (subject.collective) {
    case Collective::all_reduce:
      return {ranks, ranks, slice};
    case Collective::reduce:
    case Collective::reduce_scatter:
      return {ranks, 1, slice};
    case Collective::broadcast:
    case Collective::all_gather:
      // In place one of the copies is there already.
      return {1, in_place ? std::max(1, ranks - 1) : ranks, slice};
    case Collective::gather:
    case Collective::scatter:
      return {1, 1, slice};
    case Collective::all_to_all:
      return {1, 1, bytes};
    case Collective::barrier:
      break;
  }
  return {1, 1, 0};
}

void add_streams_baseline(const Streams& streams, bool past_caches) {
  add_all(streams, past_caches);
}

void add_streams(const Streams& streams, bool past_caches) {
  const bool past = past_caches && std::all_of(streams.targets.begin(), streams.targets.end(), is_aligned);
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return add_streams_avx2(streams, past);
#endif
  add_streams_baseline(streams, past);
}

}  // namespace trireme::bench
