#include "runtime/device/cuda/cuda_status.h"

#include <trireme/base/check.h>

namespace trireme {

Status cuda_status(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) return Status::ok();
  std::string message(what);
  message += ": ";
  message += cudaGetErrorName(error);
  message += " (";
  message += cudaGetErrorString(error);
  message += ")";
  switch (error) {
    case cudaErrorMemoryAllocation:
      return resource_exhausted(std::move(message));
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorDevicesUnavailable:
    case cudaErrorPeerAccessUnsupported:
      return unavailable(std::move(message));
    case cudaErrorInvalidValue:
    case cudaErrorInvalidDevice:
      return invalid_argument(std::move(message));
    default:
      return io_error(std::move(message));
  }
}

ScopedCudaDevice::ScopedCudaDevice(int device) {
  if (cudaGetDevice(&previous_) != cudaSuccess) previous_ = -1;
  if (previous_ != device) TRIREME_CHECK(cudaSetDevice(device) == cudaSuccess, "cudaSetDevice on a listed device");
}

ScopedCudaDevice::~ScopedCudaDevice() {
  if (previous_ >= 0) cudaSetDevice(previous_);
}

}  // namespace trireme
