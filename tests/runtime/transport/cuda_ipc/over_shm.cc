#include "tests/runtime/transport/cuda_ipc/over_shm.h"

#include "runtime/transport/cuda_ipc/api/cuda_ipc_transport.h"
#include "runtime/transport/cuda_ipc/cuda_ipc_device.h"
#include "runtime/transport/shm/api/shm_transport.h"

namespace trireme::test {

TransportFactory cuda_ipc_over_shm() {
  return {"cuda_ipc", [](const TransportEnvironment& environment) {
            return create_cuda_ipc_transport(environment, {"shm", create_shm_transport});
          }};
}

std::string why_no_gpu() {
  const auto driver = CudaIpcDriver::system();
  if (!driver.is_ok()) return driver.status().message();
  const auto device = CudaIpcDevice::open(**driver, 0, [] {});
  return device.is_ok() ? "" : device.status().message();
}

}  // namespace trireme::test
