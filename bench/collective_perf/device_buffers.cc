#include "bench/collective_perf/device_buffers.h"

#include <trireme/base/check.h>

namespace trireme::bench {

Result<std::unique_ptr<DeviceBuffers>> DeviceBuffers::create(int local_rank, std::span<std::byte> input,
                                                             std::span<std::byte> output) {
  std::vector<std::shared_ptr<Device>> gpus;
  for (const auto& device : devices().devices) {
    if (device->id().kind == DeviceKind::cuda) gpus.push_back(device);
  }
  if (gpus.empty()) return unavailable("no GPU for the buffers of this backend: " + devices().note);
  std::unique_ptr<DeviceBuffers> made(new DeviceBuffers);
  made->device_ = gpus[static_cast<std::size_t>(local_rank) % gpus.size()];
  TRIREME_ASSIGN_OR_RETURN(made->stream_, made->device_->make_stream());
  const std::span<std::byte> hosts[2] = {input, output};
  for (int i = 0; i < 2; ++i) {
    TRIREME_ASSIGN_OR_RETURN(void* const memory, made->device_->allocate(hosts[i].size(), MemoryKind::device));
    made->pairs_[i] = {hosts[i].data(), static_cast<std::byte*>(memory), hosts[i].size()};
  }
  return made;
}

DeviceBuffers::~DeviceBuffers() {
  for (const Pair& pair : pairs_) {
    if (pair.device != nullptr) device_->deallocate(pair.device, MemoryKind::device);
  }
}

std::byte* DeviceBuffers::of(const std::byte* host) const {
  for (const Pair& pair : pairs_) {
    if (host >= pair.host && host <= pair.host + pair.bytes) return pair.device + (host - pair.host);
  }
  TRIREME_CHECK(false, "a place outside of the buffers has no twin");
  return nullptr;
}

Status DeviceBuffers::upload(std::uint64_t bytes) {
  for (const Pair& pair : pairs_) TRIREME_RETURN_IF_ERROR(stream_->copy(pair.device, pair.host, bytes));
  return stream_->synchronize();
}

Status DeviceBuffers::download(std::uint64_t bytes) {
  for (const Pair& pair : pairs_) TRIREME_RETURN_IF_ERROR(stream_->copy(pair.host, pair.device, bytes));
  return stream_->synchronize();
}

}  // namespace trireme::bench
