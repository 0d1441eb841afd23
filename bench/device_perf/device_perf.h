// What the paths of a GPU's memory do: copies, and messages between two ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <trireme/base/status.h>
#include <trireme/device/device.h>

namespace trireme::bench {

struct DevicePerfOptions {
  std::uint64_t min_bytes = 64 * 1024;
  std::uint64_t max_bytes = 256 << 20;
  int factor = 16;
  int iterations = 20;
};

// One measurement: the median over the iterations. Every row's data was compared once.
struct DevicePerfRow {
  std::string kind;  // "pinned to device", ...
  std::string from;  // "cpu", "cuda:0", "rank 0"
  std::string to;
  std::uint64_t bytes = 0;
  double time_us = 0;
};

// Memory of a device for as long as this lives.
class DeviceMemory {
 public:
  static Result<DeviceMemory> allocate(std::shared_ptr<Device> device, std::size_t bytes, MemoryKind kind) {
    TRIREME_ASSIGN_OR_RETURN(void* const memory, device->allocate(bytes, kind));
    return DeviceMemory(std::move(device), memory, kind);
  }
  ~DeviceMemory() {
    if (device_) device_->deallocate(memory_, kind_);
  }
  DeviceMemory(DeviceMemory&&) = default;
  DeviceMemory& operator=(DeviceMemory&&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(memory_); }

 private:
  DeviceMemory(std::shared_ptr<Device> device, void* memory, MemoryKind kind)
      : device_(std::move(device)), memory_(memory), kind_(kind) {}
  std::shared_ptr<Device> device_;
  void* memory_;
  MemoryKind kind_;
};

// Errors: unavailable, saying why there is no GPU.
Result<std::vector<std::shared_ptr<Device>>> find_gpus();
std::vector<std::byte> test_bytes(std::uint64_t bytes, std::uint64_t seed);
double median(std::vector<double> values);

// Between the host and every GPU, within every GPU, and between every two that can.
Result<std::vector<DevicePerfRow>> measure_copies(const DevicePerfOptions& options);
// Between ranks 0 and 1 of the job over the transport cuda_ipc, memory of a GPU on both
// sides. Rows are rank 0's; the other rank has none.
Result<std::vector<DevicePerfRow>> measure_channel(const DevicePerfOptions& options);

}  // namespace trireme::bench
