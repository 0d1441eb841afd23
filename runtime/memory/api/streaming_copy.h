// streaming_copy: a copy whose stores go past this processor's caches.
//
// Lines that another core has in its cache must be taken from it before a plain store can
// change them, one after the other; streaming stores write whole lines without asking for
// their content. So memory that peers read, and this rank does not, is filled several
// times faster. Below a few KiB a plain copy is as good.
// Thread safety: pure. What was stored is visible to others before anything stored later;
// of stream_copy_unfenced() only after streaming_fence().
#pragma once

#include <cstddef>

namespace trireme {

// From here on streaming pays.
inline constexpr std::size_t kStreamingBytes = 3 * 1024;

// As memcpy. REQUIRES: the two do not overlap.
void streaming_copy(void* to, const void* from, std::size_t bytes);
// For many pieces in a row.
// `ahead`: as many bytes that are read next, whose way from memory begins meanwhile; or nullptr.
void stream_copy_unfenced(void* to, const void* from, std::size_t bytes, const void* ahead = nullptr);
void streaming_fence();
// streaming_copy() from kStreamingBytes on, else memcpy.
void copy_to_peer(void* to, const void* from, std::size_t bytes);

}  // namespace trireme
