// GPU memory as the verbs transport sees it: which addresses are on a GPU, which
// allocation they belong to, and how a network device gets at them. The CUDA driver is
// loaded at run time; without it every address is the host's.
// Thread safety: values; the functions are as thread-safe as the driver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <trireme/base/status.h>

#include "runtime/platform/api/unique_fd.h"

namespace trireme {

// The driver's functions under their names in cuda.h; 0 means success.
struct CudaDriver {
  int (*cuPointerGetAttribute)(void* data, int attribute, std::uint64_t pointer) = nullptr;
  int (*cuMemGetAddressRange)(std::uint64_t* base, std::size_t* bytes, std::uint64_t pointer) = nullptr;
  int (*cuMemGetHandleForAddressRange)(void* handle, std::uint64_t pointer, std::size_t bytes, int type,
                                       unsigned long long flags) = nullptr;  // Null before CUDA 11.7.
  int (*cuMemcpyDtoH)(void* to, std::uint64_t from, std::size_t bytes) = nullptr;

  // Null when this machine has no CUDA driver.
  static const CudaDriver* system();
};

struct DeviceAllocation {
  std::uint64_t id = 0;  // Never used again in this process, also not for the same addresses.
  std::uint64_t base = 0;
  std::size_t bytes = 0;
};

// nullopt for host memory (pinned and managed memory counts as that).
std::optional<DeviceAllocation> device_allocation(const CudaDriver* driver, const void* pointer);
// A dma-buf of the whole pages of the allocation that hold [pointer, pointer + bytes),
// and where `pointer` lies in it. Errors: unsupported.
struct DeviceBuffer {
  UniqueFd fd;
  std::uint64_t first = 0;  // The address of its first byte.
  std::size_t bytes = 0;
};
Result<DeviceBuffer> export_device_memory(const CudaDriver& driver, const DeviceAllocation& allocation);

}  // namespace trireme
