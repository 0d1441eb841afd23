#include "runtime/transport/verbs/device_memory.h"

#include <dlfcn.h>
#include <unistd.h>

#include <string>

namespace trireme {
namespace {

// From cuda.h, which need not be installed where this is compiled.
constexpr int kMemoryTypeAttribute = 2;  // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
constexpr int kBufferIdAttribute = 7;    // CU_POINTER_ATTRIBUTE_BUFFER_ID
constexpr int kManagedAttribute = 8;     // CU_POINTER_ATTRIBUTE_IS_MANAGED
constexpr unsigned kDeviceMemory = 2;    // CU_MEMORYTYPE_DEVICE
constexpr int kDmaBufHandle = 1;         // CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

const CudaDriver* load() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  static CudaDriver driver;
  find(library, "cuMemGetHandleForAddressRange", driver.cuMemGetHandleForAddressRange);
  const bool complete = find(library, "cuPointerGetAttribute", driver.cuPointerGetAttribute) &&
                        find(library, "cuMemGetAddressRange_v2", driver.cuMemGetAddressRange) &&
                        find(library, "cuMemcpyDtoH_v2", driver.cuMemcpyDtoH);
  return complete ? &driver : nullptr;
}

}  // namespace

const CudaDriver* CudaDriver::system() {
  static const CudaDriver* const driver = load();
  return driver;
}

std::optional<DeviceAllocation> device_allocation(const CudaDriver* driver, const void* pointer) {
  if (driver == nullptr) return std::nullopt;
  const auto address = reinterpret_cast<std::uint64_t>(pointer);
  unsigned type = 0;
  unsigned managed = 0;
  DeviceAllocation allocation;
  if (driver->cuPointerGetAttribute(&type, kMemoryTypeAttribute, address) != 0 || type != kDeviceMemory ||
      driver->cuPointerGetAttribute(&managed, kManagedAttribute, address) != 0 || managed != 0 ||
      driver->cuPointerGetAttribute(&allocation.id, kBufferIdAttribute, address) != 0 ||
      driver->cuMemGetAddressRange(&allocation.base, &allocation.bytes, address) != 0) {
    return std::nullopt;
  }
  return allocation;
}

Result<DeviceBuffer> export_device_memory(const CudaDriver& driver, const DeviceAllocation& allocation) {
  if (driver.cuMemGetHandleForAddressRange == nullptr) return unsupported("the CUDA driver exports no dma-bufs");
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  DeviceBuffer buffer;
  buffer.first = allocation.base / page * page;
  buffer.bytes = static_cast<std::size_t>((allocation.base + allocation.bytes + page - 1) / page * page - buffer.first);
  int fd = -1;
  const int error = driver.cuMemGetHandleForAddressRange(&fd, buffer.first, buffer.bytes, kDmaBufHandle, 0);
  if (error != 0) return unsupported("cuMemGetHandleForAddressRange: CUDA error " + std::to_string(error));
  buffer.fd = UniqueFd(fd);
  return buffer;
}

}  // namespace trireme
