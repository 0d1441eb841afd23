// A CUDA driver whose GPU memory is ordinary memory.
#include <sys/eventfd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "tests/runtime/transport/verbs/fake_device.h"

namespace trireme::test {

struct FakeGpu::Impl {
  struct Allocation {
    std::size_t bytes = 0;
    std::uint64_t id = 0;
  };
  std::mutex mutex;
  std::map<std::uint64_t, Allocation> allocations;
  std::uint64_t next_id = 1;
  int copies = 0;
  CudaDriver driver;

  const std::pair<const std::uint64_t, Allocation>* find(std::uint64_t address) {
    const auto next = allocations.upper_bound(address);
    if (next == allocations.begin()) return nullptr;
    const auto& found = *std::prev(next);
    return address < found.first + found.second.bytes ? &found : nullptr;
  }
};

namespace {

// The driver's functions carry no argument for it.
FakeGpu::Impl* the_gpu_of(FakeGpu::Impl* set, bool change) {
  static FakeGpu::Impl* gpu = nullptr;
  if (change) gpu = set;
  return gpu;
}

}  // namespace

FakeGpu::FakeGpu() : impl_(std::make_unique<Impl>()) {
  the_gpu_of(impl_.get(), true);
  impl_->driver.cuPointerGetAttribute = [](void* data, int attribute, std::uint64_t pointer) {
    Impl* gpu = the_gpu_of(nullptr, false);
    const std::lock_guard lock(gpu->mutex);
    const auto* found = gpu->find(pointer);
    if (found == nullptr) return 1;
    if (attribute == 7) {
      std::memcpy(data, &found->second.id, sizeof found->second.id);
    } else {
      const unsigned value = attribute == 2 ? 2 : 0;
      std::memcpy(data, &value, sizeof value);
    }
    return 0;
  };
  impl_->driver.cuMemGetAddressRange = [](std::uint64_t* base, std::size_t* bytes, std::uint64_t pointer) {
    Impl* gpu = the_gpu_of(nullptr, false);
    const std::lock_guard lock(gpu->mutex);
    const auto* found = gpu->find(pointer);
    *base = found->first;
    *bytes = found->second.bytes;
    return 0;
  };
  impl_->driver.cuMemGetHandleForAddressRange = [](void* handle, std::uint64_t, std::size_t, int, unsigned long long) {
    const int fd = eventfd(0, EFD_CLOEXEC);
    std::memcpy(handle, &fd, sizeof fd);
    return 0;
  };
  impl_->driver.cuMemcpyDtoH = [](void* to, std::uint64_t from, std::size_t bytes) {
    Impl* gpu = the_gpu_of(nullptr, false);
    const std::lock_guard lock(gpu->mutex);
    ++gpu->copies;
    std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
    return 0;
  };
}

FakeGpu::~FakeGpu() {
  the_gpu_of(nullptr, true);
  for (const auto& [address, allocation] : impl_->allocations) std::free(reinterpret_cast<void*>(address));
}

const CudaDriver& FakeGpu::driver() const {
  return impl_->driver;
}

std::byte* FakeGpu::allocate(std::size_t bytes) {
  void* memory = std::aligned_alloc(4096, bytes);
  const std::lock_guard lock(impl_->mutex);
  impl_->allocations[reinterpret_cast<std::uint64_t>(memory)] = {bytes, impl_->next_id++};
  return static_cast<std::byte*>(memory);
}

void FakeGpu::reallocate(std::byte* memory) {
  const std::lock_guard lock(impl_->mutex);
  impl_->allocations[reinterpret_cast<std::uint64_t>(memory)].id = impl_->next_id++;
}

int FakeGpu::copies() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->copies;
}

bool FakeGpu::owns(const void* memory) {
  Impl* gpu = the_gpu_of(nullptr, false);
  if (gpu == nullptr) return false;
  const std::lock_guard lock(gpu->mutex);
  return gpu->find(reinterpret_cast<std::uint64_t>(memory)) != nullptr;
}

}  // namespace trireme::test
