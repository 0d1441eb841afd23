#include "runtime/transport/cuda_ipc/cuda_ipc_exports.h"

#include <fmt/core.h>

namespace trireme {

Result<CudaIpcRegion> CudaIpcExports::describe(const CudaIpcAllocation& allocation) {
  if (allocation.base == 0 || allocation.id == 0) return unsupported("the CUDA driver does not know its allocation");
  if (allocation.device != device_->ordinal()) {
    return unsupported(fmt::format("it is memory of GPU {}, and this rank shares that of GPU {}", allocation.device,
                                   device_->ordinal()));
  }
  const std::lock_guard lock(mutex_);
  if (const auto known = regions_.find(allocation.id); known != regions_.end()) return known->second;
  CudaIpcRegion region{allocation.id, allocation.base, allocation.bytes, CudaIpcAccess::descriptor, {}};
  if (allocation.has_legacy_handle) {
    const CudaIpcDriver& driver = device_->driver();
    const CudaIpcScope scope(driver, device_->context());
    CUipcMemHandle handle{};
    TRIREME_RETURN_IF_ERROR(driver.check(driver.ipc_get_mem_handle(&handle, allocation.base), "cuIpcGetMemHandle"));
    region.access = CudaIpcAccess::handle;
    region.handle.assign(handle.reserved, sizeof handle.reserved);
  } else if (!allocation.has_descriptor) {
    return unsupported("its allocator gives out neither IPC handles nor descriptors");
  }
  regions_.emplace(allocation.id, region);
  return region;
}

bool CudaIpcExports::alive(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  const auto known = regions_.find(id);
  if (known == regions_.end()) return false;
  const auto now = device_->allocation(reinterpret_cast<const void*>(known->second.base));
  if (now && now->id == id) return true;
  regions_.erase(known);
  return false;
}

Result<UniqueFd> CudaIpcExports::descriptor(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  const auto known = regions_.find(id);
  if (known == regions_.end() || known->second.access != CudaIpcAccess::descriptor) {
    return not_found(fmt::format("allocation {} is not one that was sent", id));
  }
  const CudaIpcDriver& driver = device_->driver();
  const CudaIpcScope scope(driver, device_->context());
  CUmemGenericAllocationHandle handle = 0;
  TRIREME_RETURN_IF_ERROR(
      driver.check(driver.mem_retain_allocation_handle(&handle, reinterpret_cast<void*>(known->second.base)),
                   "cuMemRetainAllocationHandle"));
  int fd = -1;
  const Status exported =
      driver.check(driver.mem_export_to_shareable_handle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                   "cuMemExportToShareableHandle");
  driver.mem_release(handle);
  TRIREME_RETURN_IF_ERROR(exported);
  return UniqueFd(fd);
}

}  // namespace trireme
