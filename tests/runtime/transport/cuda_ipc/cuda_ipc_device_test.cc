// What the transport asks of the driver, over the stand-in.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>

#include "runtime/transport/cuda_ipc/cuda_ipc_exports.h"
#include "tests/contract/support.h"
#include "tests/runtime/transport/cuda_ipc/gpu_memory.h"

namespace trireme::test {
namespace {

std::shared_ptr<CudaIpcDevice> open_device(int local_rank) {
  const auto driver = CudaIpcDriver::system();
  EXPECT_TRUE(driver.is_ok()) << driver.status().to_string();
  auto device = CudaIpcDevice::open(**driver, local_rank, [] {});
  EXPECT_TRUE(device.is_ok()) << device.status().to_string();
  return *device;
}

TEST(CudaIpcDevice, RanksTakeTurnsAndAContextThatIsCurrentDecides) {
  EXPECT_EQ(open_device(0)->ordinal(), 0);
  EXPECT_EQ(open_device(3)->ordinal(), 1);
  const auto second = open_device(1);
  const CudaIpcScope scope(second->driver(), second->context());
  EXPECT_EQ(open_device(0)->ordinal(), 1);
  EXPECT_EQ(second->pci_address(), "0000:1b:00.0") << "as the kernel writes it";
  EXPECT_EQ(second->uuid().size(), 16u);
}

TEST(CudaIpcDevice, AnAllocationAtTheSameAddressIsAnotherOne) {
  const auto device = open_device(0);
  CudaIpcExports exports(device);
  std::uint64_t first_id = 0;
  const std::byte* first = nullptr;
  {
    GpuMemory memory(10'000);
    first = memory.span().data();
    const auto allocation = device->allocation(first + 9'999);
    ASSERT_TRUE(allocation.has_value());
    EXPECT_EQ(allocation->base, reinterpret_cast<std::uint64_t>(first));
    EXPECT_EQ(allocation->bytes, 10'000u);
    first_id = allocation->id;
    ASSERT_TRUE(exports.describe(*allocation).is_ok());
    EXPECT_TRUE(exports.alive(first_id));
  }
  EXPECT_FALSE(device->allocation(first).has_value());
  GpuMemory again(10'000);
  ASSERT_EQ(again.span().data(), first) << "the stand-in uses addresses again";
  EXPECT_NE(device->allocation(first)->id, first_id);
  EXPECT_FALSE(exports.alive(first_id));
}

TEST(CudaIpcDevice, OnlyMemoryOfGpusIsThat) {
  const auto device = open_device(0);
  std::vector<std::byte> host(10);
  const auto slot = device->take_slot();
  ASSERT_TRUE(slot.is_ok());
  EXPECT_FALSE(device->is_device_memory(host.data()));
  EXPECT_FALSE(device->is_device_memory(*slot)) << "pinned memory is the host's";
  EXPECT_TRUE(device->is_device_memory(GpuMemory(5).span().data()));
  device->give_slot(*slot);
}

TEST(CudaIpcDevice, SharesWhatItsAllocatorAllows) {
  const auto device = open_device(0);
  CudaIpcExports exports(device);
  GpuMemory plain(100);
  GpuMemory mapped(100, GpuAllocator::descriptor);
  GpuMemory unshared(100, GpuAllocator::unshared);
  GpuMemory others(100, GpuAllocator::plain, 1);
  const auto access = [&](const GpuMemory& memory) {
    return exports.describe(*device->allocation(memory.span().data()));
  };
  EXPECT_EQ(access(plain)->access, CudaIpcAccess::handle);
  ASSERT_EQ(access(mapped)->access, CudaIpcAccess::descriptor);
  EXPECT_TRUE(exports.descriptor(access(mapped)->id).is_ok());
  EXPECT_EQ(access(unshared).status().code(), StatusCode::unsupported);
  EXPECT_EQ(access(others).status().code(), StatusCode::unsupported);
  EXPECT_EQ(exports.descriptor(access(plain)->id).status().code(), StatusCode::not_found);
  EXPECT_EQ(exports.descriptor(12345678).status().code(), StatusCode::not_found);
}

TEST(CudaIpcDevice, CopiesRingWhenTheyEnd) {
  std::atomic<int> rings{0};
  const auto device = CudaIpcDevice::open(**CudaIpcDriver::system(), 0, [&] { ++rings; });
  ASSERT_TRUE(device.is_ok());
  GpuMemory memory(1000);
  std::byte* slot = (*device)->take_slot().value();
  const auto event = (*device)->copy(memory.span().data(), slot, 1000);
  ASSERT_TRUE(event.is_ok());
  EXPECT_EQ((*device)->copies_open(), 1);
  EXPECT_TRUE((*device)->settle(*event, Deadline::after_ms(kPatienceMs)).is_ok());
  (*device)->release(*event);
  EXPECT_EQ((*device)->copies_open(), 0);
  const Deadline deadline = Deadline::after_ms(kPatienceMs);
  while (rings == 0 && !deadline.expired()) std::atomic_thread_fence(std::memory_order_seq_cst);
  EXPECT_EQ(rings, 1);
  (*device)->give_slot(slot);
}

TEST(CudaIpcDevice, AMachineWithoutGpusAndAContainerThatHidesThemAreToldApart) {
  const Status error = unavailable("cuInit: CUDA_ERROR_NO_DEVICE");
  EXPECT_EQ(explain_no_cuda_device(error, false).message(), error.message());
  EXPECT_NE(explain_no_cuda_device(error, true).message().find("hides /dev/nvidia*"), std::string::npos);
  setenv("TRIREME_STAND_IN_GPUS", "0", 1);
  const auto none = CudaIpcDevice::open(**CudaIpcDriver::system(), 0, [] {});
  unsetenv("TRIREME_STAND_IN_GPUS");
  ASSERT_FALSE(none.is_ok());
  EXPECT_EQ(none.status().code(), StatusCode::unavailable);
  EXPECT_NE(none.status().message().find("CUDA_ERROR_NO_DEVICE"), std::string::npos);
}

}  // namespace
}  // namespace trireme::test
