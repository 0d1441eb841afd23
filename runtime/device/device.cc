#include <trireme/device/device.h>

#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/cuda_devices.h"

namespace trireme {

std::string DeviceId::to_string() const {
  return kind == DeviceKind::cpu ? std::string("cpu") : "cuda:" + std::to_string(index);
}

const DeviceList& devices() {
  static const DeviceList list = [] {
    DeviceList found;
    found.devices.push_back(cpu_device());
    append_cuda_devices(found);
    return found;
  }();
  return list;
}

std::shared_ptr<Device> cpu_device() {
  static const std::shared_ptr<Device> device = make_cpu_device();
  return device;
}

}  // namespace trireme
