#include "runtime/memory/api/streaming_copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace trireme {

#if defined(__SSE2__)

namespace {
constexpr std::size_t kLine = 64;
}

void stream_copy_unfenced(void* to, const void* from, std::size_t bytes, const void* ahead) {
  auto* target = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  // Up to the first whole line.
  const std::size_t head = std::min(bytes, (kLine - reinterpret_cast<std::uintptr_t>(target) % kLine) % kLine);
  if (head > 0) std::memcpy(target, source, head);
  std::size_t at = head;
  const auto* next = static_cast<const char*>(ahead);
  for (; at + kLine <= bytes; at += kLine) {
    if (next != nullptr) _mm_prefetch(next + at, _MM_HINT_T0);
    const auto* line = reinterpret_cast<const __m128i*>(source + at);
    auto* place = reinterpret_cast<__m128i*>(target + at);
    for (int quarter = 0; quarter < 4; ++quarter) _mm_stream_si128(place + quarter, _mm_loadu_si128(line + quarter));
  }
  if (at < bytes) std::memcpy(target + at, source + at, bytes - at);
}

// Streaming stores are ordered with nothing else.
void streaming_fence() {
  _mm_sfence();
}

#else

void stream_copy_unfenced(void* to, const void* from, std::size_t bytes, const void* /*ahead*/) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

void streaming_fence() {}

#endif

void streaming_copy(void* to, const void* from, std::size_t bytes) {
  stream_copy_unfenced(to, from, bytes);
  streaming_fence();
}

void copy_to_peer(void* to, const void* from, std::size_t bytes) {
  if (bytes >= kStreamingBytes) return streaming_copy(to, from, bytes);
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace trireme
