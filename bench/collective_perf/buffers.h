// Buffers: what the calls of a *_perf program send from and receive in.
// Thread safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <trireme/base/status.h>
#include <trireme/collectives/communicator.h>

#include "bench/collective_perf/device_buffers.h"
#include "bench/collective_perf/options.h"

namespace trireme::bench {

// One pair for all measurements, of the largest size, touched once; and its twins on a
// device when a contender needs them.
struct Buffers {
  std::shared_ptr<std::byte> input;
  std::shared_ptr<std::byte> output;
  std::unique_ptr<DeviceBuffers> device;
};

// In windows of `control` when they are to be registered; collective then. Errors:
// resource_exhausted; what Communicator::allocate and DeviceBuffers say.
Result<Buffers> make_buffers(Communicator& control, const std::vector<Communicator*>& contenders, const PerfOptions& options);

}  // namespace trireme::bench
