// CUDA's error codes as Status.
#pragma once

#include <string_view>

#include <cuda_runtime_api.h>
#include <trireme/base/status.h>

namespace trireme {

// ok for cudaSuccess; otherwise "what: cudaErrorX (text)", with the code that fits:
// resource_exhausted for memory, unavailable for missing devices or drivers.
Status cuda_status(cudaError_t error, std::string_view what);

// Makes `device` current for as long as the object lives, then the earlier one again:
// a library must not leave the caller on another device.
class ScopedCudaDevice {
 public:
  explicit ScopedCudaDevice(int device);
  ~ScopedCudaDevice();
  ScopedCudaDevice(const ScopedCudaDevice&) = delete;
  ScopedCudaDevice& operator=(const ScopedCudaDevice&) = delete;

 private:
  int previous_ = -1;
};

}  // namespace trireme
