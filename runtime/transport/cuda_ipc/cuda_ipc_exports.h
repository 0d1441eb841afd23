// CudaIpcExports: which GPU memory of this rank its peers may read, and how.
//
// A region is kept under the driver's id of its allocation, which a later allocation at
// the same address does not have. Nothing kept here keeps memory alive: a descriptor is
// made when a peer asks for it.
// Thread safety: all methods.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include <trireme/base/status.h>

#include "runtime/platform/api/unique_fd.h"
#include "runtime/transport/cuda_ipc/cuda_ipc_device.h"
#include "runtime/transport/cuda_ipc/cuda_ipc_wire.h"

namespace trireme {

class CudaIpcExports {
 public:
  explicit CudaIpcExports(std::shared_ptr<CudaIpcDevice> device) : device_(std::move(device)) {}

  // How a peer gets at the allocation. Errors: unsupported when it cannot be shared
  // (memory of another GPU or of a pool that exports nothing); what the driver says.
  Result<CudaIpcRegion> describe(const CudaIpcAllocation& allocation);
  // Whether the allocation still exists; forgets it when not.
  bool alive(std::uint64_t id);
  // Of a region whose access is `descriptor`. Errors: not_found; what the driver says.
  Result<UniqueFd> descriptor(std::uint64_t id);

 private:
  std::shared_ptr<CudaIpcDevice> device_;
  std::mutex mutex_;
  std::map<std::uint64_t, CudaIpcRegion> regions_;
};

}  // namespace trireme
