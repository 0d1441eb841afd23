// The build without CUDA.
#include "runtime/transport/cuda_ipc/api/cuda_ipc_transport.h"

namespace trireme {

Result<std::unique_ptr<Transport>> create_cuda_ipc_transport(const TransportEnvironment&, const TransportFactory&) {
  return unavailable("no CUDA in this build: the toolkit was not found when it was configured (TRIREME_CUDA)");
}

}  // namespace trireme
