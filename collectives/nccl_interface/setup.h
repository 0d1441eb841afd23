// How communicators come to be: from a unique id, by splitting, by shrinking.
//
// Each function checks its arguments, registers a handle at once (so that a non-blocking
// caller can ask for its state) and submits the work (group.h). A blocking call that fails
// outside of a group leaves NULL.
// Thread safety: all functions.
#pragma once

#include "collectives/nccl_interface/abi.h"
#include "collectives/nccl_interface/outcome.h"

namespace trireme::nccl {

Outcome init_rank(::ncclComm** handle, int ranks, const UniqueId& id, int rank, const Config* config);
// One process, one communicator per device; `devices` may be null: 0, 1, ...
Outcome init_all(::ncclComm** handles, int count, const int* devices);
Outcome split(const ::ncclComm* parent, int color, int key, ::ncclComm** handle, const Config* config);
Outcome shrink(const ::ncclComm* parent, const int* excluded, int excluded_count, ::ncclComm** handle,
               const Config* config, int flags);

}  // namespace trireme::nccl
