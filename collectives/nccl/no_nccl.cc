// In builds without nccl.h.
#include "collectives/nccl/nccl_backend.h"

namespace trireme {

BackendResult make_nccl_backend(const std::shared_ptr<World>&) {
  return unsupported("this build has no NCCL backend: build where CUDA and nccl.h are installed (TRIREME_NCCL=ON)");
}

}  // namespace trireme
