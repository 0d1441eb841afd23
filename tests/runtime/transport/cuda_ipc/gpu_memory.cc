#include "tests/runtime/transport/cuda_ipc/gpu_memory.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace trireme::test {
namespace {

constexpr std::size_t kGranularity = std::size_t{2} << 20;  // Of memory mapped by hand.
constexpr std::uint64_t kPatienceMs = 60'000;

void must(const Status& status) {
  if (status.is_ok()) return;
  std::fprintf(stderr, "GPU memory for a test: %s\n", status.to_string().c_str());
  std::abort();
}

template <typename T>
T must(Result<T> result) {
  must(result.status());
  return std::move(result).value();
}

void copy(CudaIpcDevice& device, void* to, const void* from, std::size_t bytes) {
  CUevent event = must(device.copy(to, from, bytes));
  must(device.settle(event, Deadline::after_ms(kPatienceMs)));
  device.release(event);
}

}  // namespace

GpuMemory::GpuMemory(std::size_t bytes, GpuAllocator allocator, int gpu)
    : device_(must(CudaIpcDevice::open(*must(CudaIpcDriver::system()), gpu, [] {}))),
      allocator_(allocator),
      bytes_(bytes) {
  const CudaIpcDriver& driver = device_->driver();
  const CudaIpcScope scope(driver, device_->context());
  if (allocator_ != GpuAllocator::plain) {
    allocate_mapped(allocator_ == GpuAllocator::descriptor);
    return;
  }
  CUdeviceptr pointer = 0;
  must(driver.check(driver.mem_alloc(&pointer, bytes), "cuMemAlloc"));
  data_ = reinterpret_cast<std::byte*>(pointer);
}

void GpuMemory::allocate_mapped(bool shared) {
  const CudaIpcDriver& driver = device_->driver();
  mapped_bytes_ = (bytes_ + kGranularity - 1) / kGranularity * kGranularity;
  CUmemAllocationProp wanted{};
  wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  wanted.location.id = device_->ordinal();
  if (shared) wanted.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemGenericAllocationHandle handle = 0;
  must(driver.check(driver.mem_create(&handle, mapped_bytes_, &wanted, 0), "cuMemCreate"));
  CUdeviceptr pointer = 0;
  must(driver.check(driver.mem_address_reserve(&pointer, mapped_bytes_, 0, 0, 0), "cuMemAddressReserve"));
  must(driver.check(driver.mem_map(pointer, mapped_bytes_, 0, handle, 0), "cuMemMap"));
  CUmemAccessDesc access{};
  access.location = wanted.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  must(driver.check(driver.mem_set_access(pointer, mapped_bytes_, &access, 1), "cuMemSetAccess"));
  must(driver.check(driver.mem_release(handle), "cuMemRelease"));
  data_ = reinterpret_cast<std::byte*>(pointer);
}

GpuMemory::~GpuMemory() {
  const CudaIpcDriver& driver = device_->driver();
  const CudaIpcScope scope(driver, device_->context());
  const auto pointer = reinterpret_cast<CUdeviceptr>(data_);
  if (allocator_ == GpuAllocator::plain) {
    must(driver.check(driver.mem_free(pointer), "cuMemFree"));
    return;
  }
  must(driver.check(driver.mem_unmap(pointer, mapped_bytes_), "cuMemUnmap"));
  must(driver.check(driver.mem_address_free(pointer, mapped_bytes_), "cuMemAddressFree"));
}

void GpuMemory::write(std::span<const std::byte> data) {
  std::byte* slot = must(device_->take_slot());
  for (std::size_t done = 0; done < data.size(); done += CudaIpcDevice::kSlotBytes) {
    const std::size_t bytes = std::min(data.size() - done, CudaIpcDevice::kSlotBytes);
    std::memcpy(slot, data.data() + done, bytes);
    copy(*device_, data_ + done, slot, bytes);
  }
  device_->give_slot(slot);
}

std::vector<std::byte> GpuMemory::read(std::size_t count) const {
  std::vector<std::byte> data(count);
  std::byte* slot = must(device_->take_slot());
  for (std::size_t done = 0; done < count; done += CudaIpcDevice::kSlotBytes) {
    const std::size_t bytes = std::min(count - done, CudaIpcDevice::kSlotBytes);
    copy(*device_, slot, data_ + done, bytes);
    std::memcpy(data.data() + done, slot, bytes);
  }
  device_->give_slot(slot);
  return data;
}

}  // namespace trireme::test
