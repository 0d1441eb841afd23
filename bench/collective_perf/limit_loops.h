// The loop of add_streams(), compiled once per instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "bench/collective_perf/limit.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace trireme::bench {

// Of a compiled instruction set; targets are 32-byte aligned when `past_caches`.
using AddStreams = void(const Streams& streams, bool past_caches);
AddStreams add_streams_baseline;
AddStreams add_streams_avx2;

namespace {

constexpr std::uint64_t kLine = 64;
// Half a cache line, anywhere in memory.
using Half = std::uint64_t __attribute__((vector_size(32), aligned(1), may_alias));

inline Half load(const std::byte* from) {
  return *reinterpret_cast<const Half*>(from);
}

template <bool kPastCaches>
inline void store(std::byte* to, Half value) {
#if defined(__AVX__)
  if constexpr (kPastCaches) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to), (__m256i)value);
    return;
  }
#elif defined(__x86_64__)
  if constexpr (kPastCaches) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to),
                     __m128i{static_cast<long long>(value[0]), static_cast<long long>(value[1])});
    _mm_stream_si128(reinterpret_cast<__m128i*>(to) + 1,
                     __m128i{static_cast<long long>(value[2]), static_cast<long long>(value[3])});
    return;
  }
#endif
  *reinterpret_cast<Half*>(to) = value;
}

// The numbers are 0 when they are only known at run time.
template <std::size_t kSources, std::size_t kTargets, bool kPastCaches>
inline void add_lines(const Streams& streams, std::uint64_t whole) {
  const std::size_t sources = kSources == 0 ? streams.sources.size() : kSources;
  const std::size_t targets = kTargets == 0 ? streams.targets.size() : kTargets;
  const std::byte* const* const from = streams.sources.data();
  std::byte* const* const to = streams.targets.data();
  for (std::uint64_t at = 0; at < whole; at += kLine) {
    Half low = load(from[0] + at);
    Half high = load(from[0] + at + sizeof(Half));
    for (std::size_t i = 1; i < sources; ++i) {
      low += load(from[i] + at);
      high += load(from[i] + at + sizeof(Half));
    }
    for (std::size_t i = 0; i < targets; ++i) {
      store<kPastCaches>(to[i] + at, low);
      store<kPastCaches>(to[i] + at + sizeof(Half), high);
    }
  }
}

template <bool kPastCaches>
inline void add_whole_lines(const Streams& streams, std::uint64_t whole) {
  const std::size_t sources = streams.sources.size();
  const std::size_t targets = streams.targets.size();
  if (sources == 1 && targets == 1) return add_lines<1, 1, kPastCaches>(streams, whole);
  if (sources == 2 && targets == 1) return add_lines<2, 1, kPastCaches>(streams, whole);
  if (sources == 2 && targets == 2) return add_lines<2, 2, kPastCaches>(streams, whole);
  if (sources == 4 && targets == 4) return add_lines<4, 4, kPastCaches>(streams, whole);
  add_lines<0, 0, kPastCaches>(streams, whole);
}

inline void add_all(const Streams& streams, bool past_caches) {
  const std::uint64_t whole = streams.bytes / kLine * kLine;
  if (past_caches) {
    add_whole_lines<true>(streams, whole);
  } else {
    add_whole_lines<false>(streams, whole);
  }
  for (std::uint64_t at = whole; at < streams.bytes; ++at) {
    unsigned sum = 0;
    for (const std::byte* source : streams.sources) sum += std::to_integer<unsigned>(source[at]);
    for (std::byte* target : streams.targets) target[at] = static_cast<std::byte>(sum);
  }
#if defined(__x86_64__)
  if (past_caches) _mm_sfence();
#endif
}

}  // namespace
}  // namespace trireme::bench
