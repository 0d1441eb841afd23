#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include <trireme/memory/shared_heap.h>

#include "runtime/platform/api/fault.h"

namespace trireme {
namespace {

TEST(SharedHeap, AllocatesAlignedZeroedMemory) {
  const auto heap = SharedHeap::create("test", 10'000).value();
  EXPECT_EQ(heap->bytes(), 12'288U);
  auto* memory = static_cast<char*>(heap->allocate(5000).value());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 64, 0U);
  for (int i = 0; i < 5000; ++i) ASSERT_EQ(memory[i], 0);
  const auto more = heap->allocate(10'000);
  EXPECT_EQ(more.status().code(), StatusCode::resource_exhausted);
  EXPECT_NE(more.status().message().find("'test'"), std::string::npos);
  heap->deallocate(memory);
  EXPECT_TRUE(heap->allocate(10'000).is_ok());
  heap->deallocate(nullptr);
}

TEST(SharedHeap, TheSizeIsSealed) {
  const auto heap = SharedHeap::create("test", 4096).value();
  EXPECT_EQ(::ftruncate(heap->fd(), 0), -1);
  EXPECT_EQ(::ftruncate(heap->fd(), 8192), -1);
  EXPECT_EQ(::fcntl(heap->fd(), F_GET_SEALS) & (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
            F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  EXPECT_EQ(::fcntl(heap->fd(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

TEST(SharedHeap, OneProcessMapsAHeapOnce) {
  auto heap = SharedHeap::create("test", 4096).value();
  const int fd = ::dup(heap->fd());
  const auto again = SharedHeap::attach(::dup(fd), 4096).value();
  EXPECT_EQ(again, heap);
  heap.reset();
  EXPECT_EQ(SharedHeap::attach(::dup(fd), 4096).value(), again);
  ::close(fd);
}

TEST(SharedHeap, AttachChecksSealsAndSize) {
  const auto heap = SharedHeap::create("test", 8192).value();
  EXPECT_EQ(SharedHeap::attach(::dup(heap->fd()), 4096).status().code(), StatusCode::data_loss);
  EXPECT_EQ(SharedHeap::attach(::dup(heap->fd()), 0).status().code(), StatusCode::data_loss);
  const int unsealed = ::memfd_create("plain", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(::ftruncate(unsealed, 4096), 0);
  const auto refused = SharedHeap::attach(unsealed, 4096);
  EXPECT_EQ(refused.status().code(), StatusCode::data_loss);
  EXPECT_NE(refused.status().message().find("not sealed"), std::string::npos);
  EXPECT_EQ(::fcntl(unsealed, F_GETFD), -1) << "the descriptor was taken, so it is closed";
  EXPECT_FALSE(SharedHeap::attach(-1, 4096).is_ok());
}

TEST(SharedHeap, AnotherProcessSeesTheBytes) {
  const auto heap = SharedHeap::create("test", 4096).value();
  auto* memory = static_cast<char*>(heap->allocate(100).value());
  const std::size_t offset = heap->offset_of(memory, 100).value();
  const pid_t child = ::fork();
  if (child == 0) {
    // A mapping of its own, as a process that received the descriptor would make.
    void* mapped = ::mmap(nullptr, heap->bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, heap->fd(), 0);
    if (mapped == MAP_FAILED) ::_exit(1);
    std::memcpy(static_cast<char*>(mapped) + offset, "from the child", 15);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_STREQ(memory, "from the child");
}

TEST(SharedHeap, OffsetsAreOnlyOfItsOwnMemory) {
  const auto heap = SharedHeap::create("test", 4096).value();
  EXPECT_EQ(heap->offset_of(heap->base(), 4096), 0U);
  EXPECT_EQ(heap->offset_of(heap->base() + 10, 4086), 10U);
  EXPECT_EQ(heap->offset_of(heap->base() + 10, 4087), std::nullopt);
  EXPECT_EQ(heap->offset_of(heap->base() + 10, SIZE_MAX), std::nullopt);
  int elsewhere = 0;
  EXPECT_EQ(heap->offset_of(&elsewhere, sizeof(elsewhere)), std::nullopt);
}

TEST(SharedHeap, TooMuchIsRefusedBeforeAnythingIsTaken) {
  const auto heap = SharedHeap::create("huge", std::size_t{1} << 50);
  EXPECT_EQ(heap.status().code(), StatusCode::resource_exhausted);
  EXPECT_NE(heap.status().message().find("'huge'"), std::string::npos);
  EXPECT_EQ(SharedHeap::create("none", 0).status().code(), StatusCode::invalid_argument);
  const ScopedFaultInjector injector([](std::string_view site) { return site == "memory.reserve" ? ENOSPC : 0; });
  EXPECT_EQ(SharedHeap::create("small", 100).status().code(), StatusCode::resource_exhausted);
}

TEST(SharedHeap, ThreadsMayAllocateAndAttachTogether) {
  const auto heap = SharedHeap::create("test", 1 << 20).value();
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&heap, thread] {
      for (int i = 0; i < 200; ++i) {
        const auto same = SharedHeap::attach(::dup(heap->fd()), heap->bytes()).value();
        EXPECT_EQ(same, heap);
        void* memory = same->allocate(1000).value();
        std::memset(memory, thread, 1000);
        for (int j = 0; j < 1000; ++j) ASSERT_EQ(static_cast<char*>(memory)[j], thread);
        same->deallocate(memory);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(heap->allocate(1 << 20).is_ok());
}

}  // namespace
}  // namespace trireme
