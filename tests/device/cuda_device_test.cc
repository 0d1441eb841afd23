// What a GPU must do for us. Runs on a machine with one; elsewhere the tests skip, and
// DevicesSayWhyThereIsNoGpu checks that the program says why.
#include <gtest/gtest.h>
#include <trireme/base/philox.h>
#include <trireme/device/device.h>

#include <atomic>
#include <cstring>
#include <vector>

namespace trireme {
namespace {

std::vector<std::shared_ptr<Device>> gpus() {
  std::vector<std::shared_ptr<Device>> found;
  for (const auto& device : devices().devices) {
    if (device->id().kind == DeviceKind::cuda) found.push_back(device);
  }
  return found;
}

std::vector<std::uint32_t> random_words(std::size_t count, std::uint64_t seed) {
  std::vector<std::uint32_t> words(count);
  const PhiloxKey key = make_philox_key(seed, 1, 0);
  for (std::size_t i = 0; i < count; ++i) words[i] = static_cast<std::uint32_t>(philox_below(key, 0, i, 1ull << 32));
  return words;
}

TEST(CudaDevice, DevicesSayWhyThereIsNoGpu) {
  ASSERT_FALSE(devices().devices.empty());
  EXPECT_EQ(devices().devices.front()->id().kind, DeviceKind::cpu);
  if (!gpus().empty()) return;
  EXPECT_NE(devices().note.find("no GPU"), std::string::npos) << devices().note;
}

class CudaDeviceOnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (gpus().empty()) GTEST_SKIP() << "needs a GPU: " << devices().note;
  }
};

TEST_F(CudaDeviceOnGpu, CopiesRoundTripAtOddSizes) {
  for (const auto& gpu : gpus()) {
    auto stream = gpu->make_stream();
    ASSERT_TRUE(stream.is_ok()) << stream.status().to_string();
    for (std::size_t count : {std::size_t{1}, std::size_t{31}, std::size_t{4097}, std::size_t{1} << 22}) {
      const std::vector<std::uint32_t> sent = random_words(count, count);
      std::vector<std::uint32_t> received(count, 0);
      const std::size_t bytes = count * sizeof(std::uint32_t);
      auto memory = gpu->allocate(bytes, MemoryKind::device);
      auto pinned = gpu->allocate(bytes, MemoryKind::pinned_host);
      ASSERT_TRUE(memory.is_ok() && pinned.is_ok());
      std::memcpy(*pinned, sent.data(), bytes);
      ASSERT_TRUE((*stream)->copy(*memory, *pinned, bytes).is_ok());
      ASSERT_TRUE((*stream)->fill_zero(*pinned, bytes).is_ok());
      ASSERT_TRUE((*stream)->copy(received.data(), *memory, bytes).is_ok());
      ASSERT_TRUE((*stream)->synchronize().is_ok());
      EXPECT_EQ(sent, received);
      gpu->deallocate(*memory, MemoryKind::device);
      gpu->deallocate(*pinned, MemoryKind::pinned_host);
    }
  }
}

TEST_F(CudaDeviceOnGpu, HostWorkAndEventsKeepStreamOrder) {
  for (const auto& gpu : gpus()) {
    auto first = gpu->make_stream();
    auto second = gpu->make_stream();
    ASSERT_TRUE(first.is_ok() && second.is_ok());
    std::atomic<int> step{0};
    std::atomic<bool> in_order{true};
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE((*first)
                      ->enqueue([&, i] {
                        if (step.exchange(2 * i + 1) != 2 * i) in_order = false;
                      })
                      .is_ok());
      auto event = (*first)->record();
      ASSERT_TRUE(event.is_ok());
      ASSERT_TRUE((*second)->wait(*event).is_ok());
      ASSERT_TRUE((*second)
                      ->enqueue([&, i] {
                        if (step.exchange(2 * i + 2) != 2 * i + 1) in_order = false;
                      })
                      .is_ok());
      auto back = (*second)->record();
      ASSERT_TRUE(back.is_ok());
      ASSERT_TRUE((*first)->wait(*back).is_ok());
    }
    ASSERT_TRUE((*first)->synchronize().is_ok());
    ASSERT_TRUE((*second)->synchronize().is_ok());
    EXPECT_TRUE(in_order);
    EXPECT_EQ(step, 200);
  }
}

TEST_F(CudaDeviceOnGpu, TooMuchMemoryIsATypedErrorAndLeavesTheDeviceUsable) {
  for (const auto& gpu : gpus()) {
    auto memory = gpu->allocate(std::size_t{1} << 46, MemoryKind::device);
    ASSERT_FALSE(memory.is_ok());
    EXPECT_EQ(memory.status().code(), StatusCode::resource_exhausted) << memory.status().to_string();
    auto small = gpu->allocate(4096, MemoryKind::device);
    ASSERT_TRUE(small.is_ok()) << small.status().to_string();
    gpu->deallocate(*small, MemoryKind::device);
  }
}

TEST_F(CudaDeviceOnGpu, PeersCopyDirectlyOrSayWhyNot) {
  const auto all = gpus();
  if (all.size() < 2) GTEST_SKIP() << "needs two GPUs";
  const Status access = all[0]->enable_peer_access(*all[1]);
  if (!access.is_ok()) {
    EXPECT_EQ(access.code(), StatusCode::unavailable) << access.to_string();
    return;
  }
  const std::vector<std::uint32_t> sent = random_words(1 << 20, 3);
  std::vector<std::uint32_t> received(sent.size(), 0);
  const std::size_t bytes = sent.size() * sizeof(std::uint32_t);
  auto here = all[0]->allocate(bytes, MemoryKind::device);
  auto there = all[1]->allocate(bytes, MemoryKind::device);
  auto stream = all[0]->make_stream();
  ASSERT_TRUE(here.is_ok() && there.is_ok() && stream.is_ok());
  ASSERT_TRUE((*stream)->copy(*there, sent.data(), bytes).is_ok());
  ASSERT_TRUE((*stream)->copy(*here, *there, bytes).is_ok());
  ASSERT_TRUE((*stream)->copy(received.data(), *here, bytes).is_ok());
  ASSERT_TRUE((*stream)->synchronize().is_ok());
  EXPECT_EQ(sent, received);
  all[0]->deallocate(*here, MemoryKind::device);
  all[1]->deallocate(*there, MemoryKind::device);
}

}  // namespace
}  // namespace trireme
