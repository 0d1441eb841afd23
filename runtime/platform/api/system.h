// What this machine lets this process use: processors and memory; and its wall clock.
// Thread safety: all functions.
#pragma once

#include <cstdint>

namespace trireme {

// Processors this process may run on (its affinity mask); at least 1.
int usable_cpu_count();

// Bytes that can still be allocated without swapping or being killed: the kernel's
// estimate for the machine (MemAvailable), or less when a control group's limit (v1 or
// v2, of this group or any above it) leaves less. UINT64_MAX when nothing can be read.
std::uint64_t available_memory_bytes();

// Wall-clock nanoseconds since 1970 (UTC): to place what several processes did on one
// time line.
std::int64_t wall_clock_ns();

}  // namespace trireme
