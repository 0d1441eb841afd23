// Memory between processes: handles, and allocations mapped by hand with descriptors.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "tests/cuda_stand_in/stand_in.h"

namespace trireme::stand_in {
namespace {

// What is in a CUipcMemHandle here.
struct Handle {
  pid_t pid = 0;
  int fd = -1;
  std::size_t bytes = 0;
  unsigned long long id = 0;
  int gpu = 0;
};
static_assert(sizeof(Handle) <= sizeof(CUipcMemHandle));

// Physical memory, mapped or not.
struct Physical {
  std::shared_ptr<Memory> memory;
  bool shareable = false;
  int users = 1;
};

Physical* physical(CUmemGenericAllocationHandle handle) {
  return reinterpret_cast<Physical*>(handle);
}
CUmemGenericAllocationHandle handle_of(Physical* memory) {
  return reinterpret_cast<CUmemGenericAllocationHandle>(memory);
}

}  // namespace
}  // namespace trireme::stand_in

using namespace trireme::stand_in;

CUresult cuIpcGetMemHandle(CUipcMemHandle* out, CUdeviceptr pointer) {
  if (has_fault("no_handles")) return CUDA_ERROR_NOT_SUPPORTED;
  AddressSpace& space = address_space();
  const std::lock_guard lock(space.mutex);
  const auto* found = space.find(pointer);
  if (found == nullptr || found->second.kind != Allocation::Kind::plain) return CUDA_ERROR_INVALID_VALUE;
  const Memory& memory = *found->second.memory;
  const Handle handle{getpid(), memory.fd, memory.bytes, found->second.id, memory.gpu};
  std::memset(out->reserved, 0, sizeof out->reserved);
  std::memcpy(out->reserved, &handle, sizeof handle);
  return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr* pointer, CUipcMemHandle in, unsigned flags) {
  if (has_fault("no_opening")) return CUDA_ERROR_NOT_SUPPORTED;
  if (current_gpu() < 0 || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return CUDA_ERROR_INVALID_VALUE;
  Handle handle;
  std::memcpy(&handle, in.reserved, sizeof handle);
  if (handle.pid == getpid()) return CUDA_ERROR_INVALID_CONTEXT;
  const std::string path = "/proc/" + std::to_string(handle.pid) + "/fd/" + std::to_string(handle.fd);
  char link[128] = {};
  // Freed memory leaves a descriptor that is closed or another's.
  if (readlink(path.c_str(), link, sizeof link - 1) < 0 ||
      std::string(link).find("cuda-stand-in-" + std::to_string(handle.id) + " ") == std::string::npos) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return CUDA_ERROR_INVALID_VALUE;
  auto memory = std::make_shared<Memory>(fd, handle.bytes, handle.gpu);
  const std::uintptr_t address = place(0, *memory);
  if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  AddressSpace& space = address_space();
  const std::lock_guard lock(space.mutex);
  space.allocations[address] = {std::move(memory), space.next_id++, Allocation::Kind::opened, false, true};
  *pointer = address;
  return CUDA_SUCCESS;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr pointer) {
  AddressSpace& space = address_space();
  const std::lock_guard lock(space.mutex);
  const auto found = space.allocations.find(pointer);
  if (found == space.allocations.end() || found->second.kind != Allocation::Kind::opened) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  munmap(reinterpret_cast<void*>(pointer), found->second.memory->bytes);
  space.allocations.erase(found);
  return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp* wanted,
                     unsigned long long) {
  AddressSpace& space = address_space();
  const std::lock_guard lock(space.mutex);
  const int fd = make_descriptor(bytes, space.next_id++);
  if (fd < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  auto* made = new Physical;
  made->memory = std::make_shared<Memory>(fd, bytes, wanted->location.id);
  made->shareable = wanted->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  *handle = handle_of(made);
  return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  const std::lock_guard lock(address_space().mutex);
  if (--physical(handle)->users == 0) delete physical(handle);
  return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  AddressSpace& space = address_space();
  const std::lock_guard lock(space.mutex);
  const auto* found = space.find(reinterpret_cast<std::uintptr_t>(address));
  if (found == nullptr || found->second.kind != Allocation::Kind::mapped) return CUDA_ERROR_INVALID_VALUE;
  *handle = handle_of(new Physical{found->second.memory, found->second.shareable, 1});
  return CUDA_SUCCESS;
}

CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                                      unsigned long long) {
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || !physical(handle)->shareable) return CUDA_ERROR_INVALID_VALUE;
  const int fd = fcntl(physical(handle)->memory->fd, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  std::memcpy(out, &fd, sizeof fd);
  return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* in, CUmemAllocationHandleType) {
  if (has_fault("no_opening")) return CUDA_ERROR_NOT_SUPPORTED;
  const int fd = fcntl(static_cast<int>(reinterpret_cast<std::intptr_t>(in)), F_DUPFD_CLOEXEC, 0);
  struct stat info {};
  if (fd < 0 || fstat(fd, &info) != 0) return CUDA_ERROR_INVALID_VALUE;
  *handle = handle_of(new Physical{std::make_shared<Memory>(fd, static_cast<std::size_t>(info.st_size), 0), true, 1});
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* pointer, size_t bytes, size_t, CUdeviceptr, unsigned long long) {
  void* reserved = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *pointer = reinterpret_cast<std::uintptr_t>(reserved);
  return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr pointer, size_t bytes) {
  munmap(reinterpret_cast<void*>(pointer), bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long) {
  const auto& memory = physical(handle)->memory;
  if (offset != 0 || bytes != memory->bytes) return CUDA_ERROR_INVALID_VALUE;
  if (place(pointer, *memory) == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  AddressSpace& space = address_space();
  const std::lock_guard lock(space.mutex);
  space.allocations[pointer] = {memory, space.next_id++, Allocation::Kind::mapped, physical(handle)->shareable, false};
  return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes) {
  AddressSpace& space = address_space();
  const std::lock_guard lock(space.mutex);
  if (space.allocations.erase(pointer) == 0) return CUDA_ERROR_INVALID_VALUE;
  unplace(pointer, bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr pointer, size_t, const CUmemAccessDesc* access, size_t count) {
  AddressSpace& space = address_space();
  const std::lock_guard lock(space.mutex);
  const auto found = space.allocations.find(pointer);
  if (found == space.allocations.end() || count != 1) return CUDA_ERROR_INVALID_VALUE;
  found->second.accessible = access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return CUDA_SUCCESS;
}
