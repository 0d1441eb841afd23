// Buffers: what the calls of a *_perf program send from and receive in.
// Thread safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include <trireme/base/status.h>
#include <trireme/collectives/communicator.h>

#include "bench/collective_perf/device_buffers.h"
#include "bench/collective_perf/options.h"

namespace trireme::bench {

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};

// One pair for all measurements, of the largest size, touched once; and its twins on a
// device when a contender needs them.
struct Buffers {
  std::unique_ptr<std::byte, Free> input;
  std::unique_ptr<std::byte, Free> output;
  std::unique_ptr<DeviceBuffers> device;
};

// Errors: resource_exhausted; what DeviceBuffers says.
Result<Buffers> make_buffers(const std::vector<Communicator*>& contenders, const PerfOptions& options);

}  // namespace trireme::bench
