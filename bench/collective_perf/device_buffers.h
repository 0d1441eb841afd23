// DeviceBuffers: twins in a GPU's memory of a pair of buffers on the host, for backends that
// move device memory only.
// Thread safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <trireme/base/status.h>
#include <trireme/device/device.h>

namespace trireme::bench {

class DeviceBuffers {
 public:
  // On the GPU of this local rank. `input` and `output` stay where they are as long as this
  // lives. Errors: unavailable without a GPU; what allocating says.
  static Result<std::unique_ptr<DeviceBuffers>> create(int local_rank, std::span<std::byte> input,
                                                       std::span<std::byte> output);
  ~DeviceBuffers();
  DeviceBuffers(const DeviceBuffers&) = delete;
  DeviceBuffers& operator=(const DeviceBuffers&) = delete;

  // The twin of a place in one of the buffers.
  std::byte* of(const std::byte* host) const;
  // The first `bytes` of both, to the device or back; returns when they are there.
  Status upload(std::uint64_t bytes);
  Status download(std::uint64_t bytes);

 private:
  struct Pair {
    std::byte* host = nullptr;
    std::byte* device = nullptr;
    std::size_t bytes = 0;
  };
  DeviceBuffers() = default;

  std::shared_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  Pair pairs_[2];
};

}  // namespace trireme::bench
