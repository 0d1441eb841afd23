#include "runtime/transport/verbs/verbs_registrations.h"

#include <sys/mman.h>

#include <cstring>

#include <gtest/gtest.h>

#include "tests/runtime/transport/verbs/fake_device.h"

namespace trireme::test {
namespace {

constexpr std::size_t kBytes = 1 << 20;

std::byte* map_at(void* address) {
  void* memory = mmap(address, kBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | (address != nullptr ? MAP_FIXED_NOREPLACE : 0), -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  std::memset(memory, 1, kBytes);
  return static_cast<std::byte*>(memory);
}

class Registrations : public testing::Test {
 protected:
  void SetUp() override {
    auto started = Reactor::start();
    ASSERT_TRUE(started.is_ok());
    reactor_ = *started;
    int count = 0;
    ibv_device** list = devices_.library().get_device_list(&count);
    for (int i = 0; i < count; ++i) {
      auto device = VerbsDevice::open(devices_.library(), list[i], reactor_);
      ASSERT_TRUE(device.is_ok()) << device.status().to_string();
      opened_.push_back(*device);
    }
    devices_.library().free_device_list(list);
  }
  void TearDown() override {
    opened_.clear();
    EXPECT_EQ(devices_.open_objects(), 0);
  }
  VerbsRegistrations make(const CudaDriver* driver = nullptr, std::size_t most = 64 * kBytes) {
    return VerbsRegistrations(opened_, driver, most);
  }

  FakeDevices devices_{2};
  std::shared_ptr<Reactor> reactor_;
  std::vector<std::shared_ptr<VerbsDevice>> opened_;
};

TEST_F(Registrations, AreMadeOnceForEveryDevice) {
  VerbsRegistrations registrations = make();
  if (!registrations.watching().is_ok()) GTEST_SKIP() << "needs userfaultfd: " << registrations.watching().to_string();
  std::byte* memory = map_at(nullptr);
  const auto first = registrations.get(memory + 100, kBytes - 200);
  ASSERT_TRUE(first.is_ok()) << first.status().to_string();
  EXPECT_EQ(registrations.get(memory, kBytes).value(), *first);  // Whole pages are registered.
  EXPECT_EQ(registrations.get(memory + 5000, 10).value(), *first);
  EXPECT_EQ(devices_.registrations(), 2);
  EXPECT_NE((*first)->local_key(*opened_[0]), (*first)->local_key(*opened_[1]));
  munmap(memory, kBytes);
}

TEST_F(Registrations, EndWhenTheirMemoryIsUnmappedThoughTheAddressComesBack) {
  VerbsRegistrations registrations = make();
  if (!registrations.watching().is_ok()) GTEST_SKIP() << "needs userfaultfd: " << registrations.watching().to_string();
  std::byte* memory = map_at(nullptr);
  for (int round = 1; round <= 50; ++round) {
    ASSERT_TRUE(registrations.get(memory, kBytes).is_ok());
    ASSERT_EQ(devices_.registrations(), 2 * round);
    ASSERT_EQ(munmap(memory, kBytes), 0);
    ASSERT_EQ(map_at(memory), memory);  // The same address, other pages.
  }
  ASSERT_EQ(munmap(memory, kBytes), 0);
}

TEST_F(Registrations, EndAlsoWhenOnlyPartIsGivenBack) {
  VerbsRegistrations registrations = make();
  if (!registrations.watching().is_ok()) GTEST_SKIP() << "needs userfaultfd: " << registrations.watching().to_string();
  std::byte* memory = map_at(nullptr);
  ASSERT_TRUE(registrations.get(memory, kBytes).is_ok());
  ASSERT_EQ(madvise(memory + kBytes / 2, 4096, MADV_DONTNEED), 0);  // As allocators do.
  ASSERT_TRUE(registrations.get(memory, kBytes).is_ok());
  EXPECT_EQ(devices_.registrations(), 4);
  void* moved = mremap(memory, kBytes, 2 * kBytes, MREMAP_MAYMOVE);
  ASSERT_NE(moved, MAP_FAILED);
  munmap(moved, 2 * kBytes);
}

TEST_F(Registrations, OfMemoryThatCannotBeWatchedEndWithTheirUser) {
  VerbsRegistrations first = make();
  VerbsRegistrations second = make();  // A page has one watcher.
  std::byte* memory = map_at(nullptr);
  ASSERT_TRUE(first.get(memory, kBytes).is_ok());
  const int before = devices_.registrations();
  ASSERT_TRUE(second.get(memory, kBytes).is_ok());
  ASSERT_TRUE(second.get(memory, kBytes).is_ok());
  EXPECT_EQ(devices_.registrations(), before + 4);
  munmap(memory, kBytes);
}

TEST_F(Registrations, StayWithinTheirBound) {
  VerbsRegistrations registrations = make(nullptr, 2 * kBytes);
  std::vector<std::byte*> areas;
  for (int i = 0; i < 6; ++i) {
    areas.push_back(map_at(nullptr));
    ASSERT_TRUE(registrations.get(areas.back(), kBytes).is_ok());
  }
  EXPECT_LE(devices_.open_objects(), 2 + 2 * 2);  // Two contexts, two areas with two devices each.
  for (std::byte* area : areas) munmap(area, kBytes);
}

TEST_F(Registrations, OfGpuMemoryGoByDmaBufAndByTheIdOfTheAllocation) {
  FakeGpu gpu;
  VerbsRegistrations registrations = make(&gpu.driver());
  std::byte* memory = gpu.allocate(kBytes);
  const auto first = registrations.get(memory + 64, 1000);
  ASSERT_TRUE(first.is_ok()) << first.status().to_string();
  EXPECT_EQ(registrations.get(memory, kBytes).value(), *first);  // The whole allocation.
  EXPECT_EQ(devices_.dma_bufs(), 2);
  gpu.reallocate(memory);  // Freed, and the address given out again.
  EXPECT_NE(registrations.get(memory, kBytes).value(), *first);
  EXPECT_EQ(devices_.dma_bufs(), 4);
}

TEST_F(Registrations, OfGpuMemoryFallBackToPeerMemoryAndThenSayWhatIsMissing) {
  FakeGpu gpu;
  devices_.set_faults({.no_dma_buf = true});
  {
    VerbsRegistrations registrations = make(&gpu.driver());
    EXPECT_TRUE(registrations.get(gpu.allocate(kBytes), kBytes).is_ok());
    EXPECT_EQ(devices_.dma_bufs(), 0);
  }
  devices_.set_faults({.no_dma_buf = true, .no_peer_memory = true});
  VerbsRegistrations registrations = make(&gpu.driver());
  const Status status = registrations.get(gpu.allocate(kBytes), kBytes).status();
  EXPECT_EQ(status.code(), StatusCode::unsupported);
  for (const char* part : {"fake0", "staged through the host", "nvidia-peermem", "ibv_reg_dmabuf_mr"}) {
    EXPECT_NE(status.message().find(part), std::string::npos) << status.to_string();
  }
}

}  // namespace
}  // namespace trireme::test
