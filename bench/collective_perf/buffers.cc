#include "bench/collective_perf/buffers.h"

#include <cstring>

#include <trireme/base/units.h>

namespace trireme::bench {
namespace {

constexpr std::uint64_t kPageBytes = 4096;

Result<std::unique_ptr<std::byte, Free>> make_buffer(std::uint64_t bytes) {
  const std::uint64_t whole = (bytes / kPageBytes + 1) * kPageBytes;
  std::unique_ptr<std::byte, Free> memory(static_cast<std::byte*>(std::aligned_alloc(kPageBytes, whole)));
  if (memory == nullptr) return resource_exhausted("no memory for a buffer of " + format_bytes(bytes));
  std::memset(memory.get(), 0, whole);
  return memory;
}

}  // namespace

Result<Buffers> make_buffers(const std::vector<Communicator*>& contenders, const PerfOptions& options) {
  Buffers buffers;
  TRIREME_ASSIGN_OR_RETURN(buffers.input, make_buffer(options.max_bytes));
  TRIREME_ASSIGN_OR_RETURN(buffers.output, make_buffer(options.max_bytes));
  for (const Communicator* contender : contenders) {
    if (contender->backend().host_memory || buffers.device != nullptr) continue;
    TRIREME_ASSIGN_OR_RETURN(
        buffers.device, DeviceBuffers::create(contender->world().local_rank(), {buffers.input.get(), options.max_bytes},
                                              {buffers.output.get(), options.max_bytes}));
  }
  return buffers;
}

}  // namespace trireme::bench
