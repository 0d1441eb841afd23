// Backend "nccl": NVIDIA's NCCL, one GPU a rank, on a stream of its own.
//
// The library is loaded by absolute path (TRIREME_NCCL_LIBRARY, or where CUDA's toolkit and
// the distributions put it), with its symbols kept to itself, so that it can live beside
// our own libnccl.so.2 and a program's. Buffers must be device memory of the rank's GPU
// (the one of its local rank). abort() is ncclCommAbort; a hang is known by the deadline.
#pragma once

#include "collectives/backend/backend.h"

namespace trireme {

// Errors: unavailable without a GPU, a driver or the library, saying which; unsupported in
// a build without nccl.h.
BackendResult make_nccl_backend(const std::shared_ptr<World>& world);

}  // namespace trireme
