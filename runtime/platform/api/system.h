// What this machine lets this process use: processors and memory; and its wall clock.
// Thread safety: all functions.
#pragma once

#include <cstdint>
#include <vector>

#include <trireme/base/status.h>

namespace trireme {

// Processors the calling thread may run on (its affinity mask), in ascending order; empty
// when the kernel does not say.
std::vector<int> usable_cpus();
// How many; at least 1.
int usable_cpu_count();

// Binds the calling thread, and the threads it starts from now on, to one of the
// processors it may run on: number `ordinal` of them, counted round. Errors: unavailable
// when the kernel refuses. REQUIRES: ordinal >= 0.
Status bind_to_cpu(int ordinal);

// Bytes that can still be allocated without swapping or being killed: the kernel's
// estimate for the machine (MemAvailable), or less when a control group's limit (v1 or
// v2, of this group or any above it) leaves less. UINT64_MAX when nothing can be read.
// Who only needs to know whether there are `enough` gets an answer sooner; above that it
// may be too low.
std::uint64_t available_memory_bytes(std::uint64_t enough = UINT64_MAX);

// Wall-clock nanoseconds since 1970 (UTC): to place what several processes did on one
// time line.
std::int64_t wall_clock_ns();

}  // namespace trireme
