#include "runtime/device/cuda_devices.h"

namespace trireme {

void append_cuda_devices(DeviceList& list) {
  list.note = "this build has no CUDA devices (configured without CUDA)";
}

}  // namespace trireme
