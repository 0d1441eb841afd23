// Memory of GPU 0 (or another), as tests need it: filled and read by copies.
// Thread safety: one thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "runtime/transport/cuda_ipc/cuda_ipc_device.h"

namespace trireme::test {

enum class GpuAllocator {
  plain,       // cuMemAlloc, as cudaMalloc.
  descriptor,  // cuMemCreate, mapped by hand, with a descriptor to share it by.
  unshared,    // The same without any way to share it.
};

class GpuMemory {
 public:
  // Aborts the program when there is none to be had.
  explicit GpuMemory(std::size_t bytes, GpuAllocator allocator = GpuAllocator::plain, int gpu = 0);
  ~GpuMemory();
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;

  std::span<std::byte> span() const { return {data_, bytes_}; }
  void write(std::span<const std::byte> data);
  std::vector<std::byte> read() const { return read(bytes_); }
  // The first bytes only: others may still be written.
  std::vector<std::byte> read(std::size_t bytes) const;

 private:
  void allocate_mapped(bool shared);

  std::shared_ptr<CudaIpcDevice> device_;
  GpuAllocator allocator_;
  std::byte* data_ = nullptr;
  std::size_t bytes_;
  std::size_t mapped_bytes_ = 0;
};

}  // namespace trireme::test
