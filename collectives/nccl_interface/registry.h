// Registry: which handles a program holds. A handle that was never given out, or was
// destroyed, is refused instead of followed; a call that runs keeps its communicator alive
// though another thread destroys it.
// Thread safety: all functions.
#pragma once

#include <cstddef>
#include <memory>

#include "collectives/nccl_interface/comm.h"

namespace trireme::nccl {

::ncclComm* register_comm(const std::shared_ptr<Comm>& comm);
// Errors: invalid_argument for a null or unknown handle.
Outcome find_comm(const ::ncclComm* handle, std::shared_ptr<Comm>& comm);
// Takes it out: the handle is void from now on.
Outcome release_comm(const ::ncclComm* handle, std::shared_ptr<Comm>& comm);

// Memory of ncclMemAlloc. Host memory is aligned to a page of the largest kind it can
// fill. Errors: invalid_argument for memory that did not come from here.
Outcome allocate_memory(void** memory, std::size_t bytes);
Outcome free_memory(void* memory);

// A registered buffer (ncclCommRegister): a promise of the caller's that costs nothing.
// Errors: invalid_argument for an unknown handle.
Outcome register_buffer(const void* buffer, std::size_t bytes, void** handle);
Outcome release_buffer(const void* handle);

}  // namespace trireme::nccl
