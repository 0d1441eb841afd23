// The build without CUDA.
#include "runtime/device/cuda_devices.h"

namespace trireme {

void append_cuda_devices(DeviceList& list) {
  list.note = "no GPU: Trireme was built without CUDA";
}

}  // namespace trireme
