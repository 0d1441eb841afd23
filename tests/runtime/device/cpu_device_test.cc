#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include <trireme/device/device.h>

#include "runtime/platform/api/fault.h"

namespace trireme {
namespace {

TEST(Devices, TheCpuComesFirstAndAMissingGpuIsExplained) {
  const DeviceList& list = devices();
  ASSERT_FALSE(list.devices.empty());
  EXPECT_EQ(list.devices[0]->id(), (DeviceId{DeviceKind::cpu, 0}));
  EXPECT_EQ(list.devices[0], cpu_device());
  EXPECT_TRUE(list.devices.size() > 1 || !list.note.empty());
  EXPECT_EQ((DeviceId{DeviceKind::cuda, 3}).to_string(), "cuda:3");
  EXPECT_EQ((DeviceId{}).to_string(), "cpu");
}

TEST(CpuDevice, MemoryIsAligned) {
  for (const std::size_t bytes : {0U, 1U, 63U, 64U, 65U, 1000000U}) {
    void* memory = cpu_device()->allocate(bytes, MemoryKind::device).value();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 64, 0U);
    std::memset(memory, 1, bytes);
    cpu_device()->deallocate(memory, MemoryKind::device);
  }
}

TEST(CpuDevice, TooMuchMemoryIsRefusedWithFigures) {
  for (const std::size_t bytes : {std::size_t{1} << 50, SIZE_MAX}) {
    const auto memory = cpu_device()->allocate(bytes, MemoryKind::pinned_host);
    ASSERT_FALSE(memory.is_ok());
    EXPECT_EQ(memory.status().code(), StatusCode::resource_exhausted);
    EXPECT_NE(memory.status().message().find(std::to_string(bytes)), std::string::npos);
    EXPECT_NE(memory.status().message().find("available"), std::string::npos);
  }
}

TEST(CpuStream, WorkRunsInOrder) {
  auto stream = cpu_device()->make_stream().value();
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(stream->enqueue([&order, i] { order.push_back(i); }).is_ok());
  ASSERT_TRUE(stream->synchronize().is_ok());
  ASSERT_EQ(order.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(CpuStream, CopiesAndFills) {
  auto stream = cpu_device()->make_stream().value();
  std::vector<char> from(1000, 'a');
  std::vector<char> to(1000, 'b');
  ASSERT_TRUE(stream->copy(to.data(), from.data(), 500).is_ok());
  ASSERT_TRUE(stream->fill_zero(from.data(), 10).is_ok());
  ASSERT_TRUE(stream->copy(to.data(), from.data(), 0).is_ok());
  ASSERT_TRUE(stream->synchronize().is_ok());
  EXPECT_EQ(std::string(to.data(), 3), "aaa");
  EXPECT_EQ(to[499], 'a');
  EXPECT_EQ(to[500], 'b');
  EXPECT_EQ(from[9], '\0');
  EXPECT_EQ(from[10], 'a');
}

TEST(CpuStream, EventsOrderStreams) {
  auto first = cpu_device()->make_stream().value();
  auto second = cpu_device()->make_stream().value();
  std::atomic<bool> gate{false};
  int value = 0;
  ASSERT_TRUE(first
                  ->enqueue([&] {
                    while (!gate.load()) std::this_thread::yield();
                    value = 7;
                  })
                  .is_ok());
  const auto event = first->record().value();
  EXPECT_FALSE(event->ready());
  int seen = 0;
  ASSERT_TRUE(second->wait(event).is_ok());
  ASSERT_TRUE(second->enqueue([&] { seen = value; }).is_ok());
  gate = true;
  ASSERT_TRUE(second->synchronize().is_ok());
  EXPECT_EQ(seen, 7);
  EXPECT_TRUE(event->ready());
  EXPECT_TRUE(event->synchronize().is_ok());
}

class FailedEvent final : public Event {
 public:
  bool ready() const override { return true; }
  Status synchronize() override { return aborted("a device was lost"); }
};

TEST(CpuStream, AnAwaitedErrorIsKept) {
  auto stream = cpu_device()->make_stream().value();
  ASSERT_TRUE(stream->wait(std::make_shared<FailedEvent>()).is_ok());
  EXPECT_EQ(stream->synchronize().code(), StatusCode::aborted);
  EXPECT_EQ(stream->record().value()->synchronize().code(), StatusCode::aborted);
}

TEST(CpuStream, DroppingAStreamFinishesItsWork) {
  std::atomic<int> count{0};
  std::shared_ptr<Event> event;
  {
    auto stream = cpu_device()->make_stream().value();
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(stream->enqueue([&] { count.fetch_add(1); }).is_ok());
    event = stream->record().value();
  }
  EXPECT_EQ(count.load(), 10);
  EXPECT_TRUE(event->ready());
}

TEST(CpuDevice, FaultsAreInjected) {
  const ScopedFaultInjector injector([](std::string_view site) { return site == "memory.allocate" ? ENOMEM : 0; });
  EXPECT_EQ(cpu_device()->allocate(10, MemoryKind::device).status().code(), StatusCode::resource_exhausted);
}

}  // namespace
}  // namespace trireme
