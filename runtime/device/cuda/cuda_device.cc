#include "runtime/device/cuda_devices.h"

#include <trireme/base/units.h>

#include "runtime/device/cuda/cuda_status.h"
#include "runtime/device/cuda/cuda_stream.h"

namespace trireme {
namespace {

class CudaDevice final : public Device {
 public:
  CudaDevice(int index, const cudaDeviceProp& properties)
      : index_(index),
        description_(std::string(properties.name) + ", " + format_bytes(properties.totalGlobalMem) +
                     ", compute capability " + std::to_string(properties.major) + "." +
                     std::to_string(properties.minor)) {}

  DeviceId id() const override { return {DeviceKind::cuda, index_}; }
  std::string description() const override { return description_; }

  Result<void*> allocate(std::size_t bytes, MemoryKind kind) override {
    const ScopedCudaDevice current(index_);
    void* memory = nullptr;
    const bool pinned = kind == MemoryKind::pinned_host;
    const cudaError_t error =
        pinned ? cudaHostAlloc(&memory, bytes, cudaHostAllocPortable) : cudaMalloc(&memory, bytes);
    if (error == cudaSuccess) return memory;
    cudaGetLastError();  // Otherwise the next, unrelated call would return this error.
    return cuda_status(error, "allocating " + format_bytes(bytes) + (pinned ? " of pinned host memory" : " on ") +
                                  (pinned ? "" : id().to_string()) + availability(pinned));
  }

  void deallocate(void* memory, MemoryKind kind) override {
    const ScopedCudaDevice current(index_);
    if (kind == MemoryKind::pinned_host) {
      cudaFreeHost(memory);
    } else {
      cudaFree(memory);
    }
  }

  Result<std::unique_ptr<Stream>> make_stream() override { return make_cuda_stream(index_); }

  Status enable_peer_access(Device& peer) override {
    const DeviceId other = peer.id();
    if (other.kind != DeviceKind::cuda) {
      return invalid_argument("peer access is between GPUs; " + other.to_string() + " is none");
    }
    if (other.index == index_) return Status::ok();
    int possible = 0;
    TRIREME_RETURN_IF_ERROR(
        cuda_status(cudaDeviceCanAccessPeer(&possible, index_, other.index), "asking for peer access"));
    if (possible == 0) {
      return unavailable(id().to_string() + " cannot address the memory of " + other.to_string() +
                         ": neither NVLink nor a PCIe path that allows it joins them");
    }
    const ScopedCudaDevice current(index_);
    const cudaError_t error = cudaDeviceEnablePeerAccess(other.index, 0);
    if (error == cudaErrorPeerAccessAlreadyEnabled) {
      cudaGetLastError();
      return Status::ok();
    }
    return cuda_status(error, "enabling peer access from " + id().to_string() + " to " + other.to_string());
  }

 private:
  std::string availability(bool pinned) const {
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    if (pinned || cudaMemGetInfo(&free_bytes, &total_bytes) != cudaSuccess) return "";
    return ", " + format_bytes(free_bytes) + " of " + format_bytes(total_bytes) + " free";
  }

  int index_;
  std::string description_;
};

}  // namespace

void append_cuda_devices(DeviceList& list) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    cudaGetLastError();
    list.note = error == cudaSuccess ? "no GPU: none is visible (see CUDA_VISIBLE_DEVICES)"
                                     : "no GPU: " + cuda_status(error, "cudaGetDeviceCount").message();
    return;
  }
  for (int index = 0; index < count; ++index) {
    cudaDeviceProp properties{};
    const cudaError_t query = cudaGetDeviceProperties(&properties, index);
    if (query != cudaSuccess) {
      cudaGetLastError();
      list.note +=
          "cuda:" + std::to_string(index) + " left out: " + cuda_status(query, "reading its properties").message();
      continue;
    }
    list.devices.push_back(std::make_shared<CudaDevice>(index, properties));
  }
}

}  // namespace trireme
