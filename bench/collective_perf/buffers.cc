#include "bench/collective_perf/buffers.h"

#include <cstdlib>
#include <cstring>

#include <trireme/base/units.h>

namespace trireme::bench {
namespace {

constexpr std::uint64_t kPageBytes = 4096;

Result<std::shared_ptr<std::byte>> make_buffer(Communicator& control, std::uint64_t bytes, bool registers) {
  if (registers) {
    TRIREME_ASSIGN_OR_RETURN(void* const window, control.allocate(bytes));
    return std::shared_ptr<std::byte>(static_cast<std::byte*>(window), [](std::byte*) {});  // Goes with `control`.
  }
  const std::uint64_t whole = (bytes / kPageBytes + 1) * kPageBytes;
  std::shared_ptr<std::byte> memory(static_cast<std::byte*>(std::aligned_alloc(kPageBytes, whole)), std::free);
  if (memory == nullptr) return resource_exhausted("no memory for a buffer of " + format_bytes(bytes));
  std::memset(memory.get(), 0, whole);
  return memory;
}

}  // namespace

Result<Buffers> make_buffers(Communicator& control, const std::vector<Communicator*>& contenders,
                             const PerfOptions& options) {
  Buffers buffers;
  TRIREME_ASSIGN_OR_RETURN(buffers.input, make_buffer(control, options.max_bytes, options.registers));
  TRIREME_ASSIGN_OR_RETURN(buffers.output, make_buffer(control, options.max_bytes, options.registers));
  for (const Communicator* contender : contenders) {
    if (contender->backend().host_memory || buffers.device != nullptr) continue;
    TRIREME_ASSIGN_OR_RETURN(
        buffers.device, DeviceBuffers::create(contender->world().local_rank(), {buffers.input.get(), options.max_bytes},
                                              {buffers.output.get(), options.max_bytes}));
  }
  return buffers;
}

}  // namespace trireme::bench
