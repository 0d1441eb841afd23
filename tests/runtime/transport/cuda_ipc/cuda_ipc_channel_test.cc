// GPU memory through a channel, with ranks as threads: what was sent in place, staged or
// received into GPU memory arrives in the order of the stream.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "tests/contract/support.h"
#include "tests/runtime/transport/cuda_ipc/gpu_memory.h"
#include "tests/runtime/transport/cuda_ipc/over_shm.h"

namespace trireme::test {
namespace {

constexpr std::size_t kRing = 16 * 1024;
constexpr std::size_t kSizes[] = {
    1, 7, 4096, kRing, CudaIpcDevice::kSlotBytes - 1, CudaIpcDevice::kSlotBytes + 1, (std::size_t{9} << 20) + 5};

Status send_gpu(Fabric& fabric, Channel& channel, std::span<const std::byte> data) {
  TRIREME_RETURN_IF_ERROR(wait_until(fabric.doorbell(), channel, [&] {
    data = data.subspan(channel.send_in_place(data));
    return data.empty();
  }));
  return wait_until(fabric.doorbell(), channel, [&] {
    channel.progress();
    return channel.drained();
  });
}

class CudaIpcChannelTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = why_no_gpu(); !reason.empty()) {
#ifdef TRIREME_CUDA_STAND_IN
      FAIL() << reason;
#else
      GTEST_SKIP() << "needs a GPU: " << reason;
#endif
    }
  }
};

TEST_F(CudaIpcChannelTest, SaysThatItTakesGpuMemory) {
  LocalFabrics ranks(2, cuda_ipc_over_shm(), kRing);
  EXPECT_EQ(ranks.rank(0).choice(1).transport, "cuda_ipc");
  auto channel = ranks.open(0, 1, 1);
  EXPECT_EQ(channel->transport(), "cuda_ipc");
  EXPECT_NE(ranks.rank(0).explain(1).find("a test copy of its GPU memory was right"), std::string::npos)
      << ranks.rank(0).explain(1);
}

TEST_F(CudaIpcChannelTest, WhatIsSentInPlaceArrivesOnTheGpuAndOnTheHost) {
  LocalFabrics ranks(2, cuda_ipc_over_shm(), kRing);
  ranks.run([&](int r) {
    auto channel = ranks.open(r, 1 - r, 5);
    for (const bool to_gpu : {true, false}) {
      for (const std::size_t bytes : kSizes) {
        const auto data = pattern(bytes, bytes);
        GpuMemory memory(bytes);
        if (r == 0) {
          memory.write(data);
          ASSERT_TRUE(send_gpu(ranks.rank(0), *channel, memory.span()).is_ok());
          continue;
        }
        std::vector<std::byte> in(bytes);
        const Status status =
            receive_all(ranks.rank(1).doorbell(), *channel, to_gpu ? memory.span() : std::span<std::byte>(in));
        ASSERT_TRUE(status.is_ok()) << status.to_string();
        if (to_gpu) in = memory.read();
        ASSERT_TRUE(in == data) << bytes << " bytes " << (to_gpu ? "to the GPU" : "to the host");
      }
    }
  });
}

// Host memory, segments, and host memory again, taken by a reader that knows nothing of the
// borders and changes between GPU memory and its own.
TEST_F(CudaIpcChannelTest, SegmentsKeepTheirPlaceInTheStream) {
  LocalFabrics ranks(2, cuda_ipc_over_shm(), kRing);
  const std::size_t parts[] = {100, 3000, 17, 700'000, 1, 1, 50'000, 64 * 1024, 20'000};
  std::size_t total = 0;
  for (const std::size_t bytes : parts) total += bytes;
  const auto all = pattern(total, 3);
  ranks.run([&](int r) {
    auto channel = ranks.open(r, 1 - r, 6);
    if (r == 0) {
      std::span<const std::byte> rest = all;
      bool on_gpu = false;
      for (const std::size_t bytes : parts) {
        GpuMemory memory(bytes);
        memory.write(rest.first(bytes));
        const Status status = on_gpu ? send_gpu(ranks.rank(0), *channel, memory.span())
                                     : send_all(ranks.rank(0).doorbell(), *channel, rest.first(bytes));
        ASSERT_TRUE(status.is_ok()) << status.to_string();
        rest = rest.subspan(bytes);
        on_gpu = !on_gpu;
      }
      return;
    }
    std::vector<std::byte> in(total);
    for (std::size_t done = 0, turn = 0; done < total; ++turn) {
      const std::size_t bytes = std::min<std::size_t>(total - done, 1 + turn * 7919 % 40'000);
      if (turn % 3 == 1) {
        GpuMemory memory(bytes);
        ASSERT_TRUE(receive_all(ranks.rank(1).doorbell(), *channel, memory.span()).is_ok());
        const auto read = memory.read();
        std::copy(read.begin(), read.end(), in.begin() + static_cast<std::ptrdiff_t>(done));
      } else {
        ASSERT_TRUE(receive_all(ranks.rank(1).doorbell(), *channel, std::span(in).subspan(done, bytes)).is_ok());
      }
      done += bytes;
    }
    EXPECT_TRUE(in == all);
  });
}

// A reader may give up a target while copies into it are under way, and must get every byte
// in the next.
TEST_F(CudaIpcChannelTest, AnotherTargetGetsTheSameBytes) {
  LocalFabrics ranks(2, cuda_ipc_over_shm(), kRing);
  const std::size_t bytes = (std::size_t{9} << 20) + 3;
  const auto data = pattern(bytes, 8);
  ranks.run([&](int r) {
    auto channel = ranks.open(r, 1 - r, 7);
    GpuMemory memory(bytes);
    if (r == 0) {
      memory.write(data);
      ASSERT_TRUE(send_gpu(ranks.rank(0), *channel, memory.span()).is_ok());
      return;
    }
    GpuMemory other(bytes);
    Doorbell& bell = ranks.rank(1).doorbell();
    std::size_t done = 0;
    for (int turn = 0; turn < 6; ++turn) {  // Each turn asks for less than was begun, elsewhere or not at all.
      GpuMemory& target = turn % 2 == 0 ? memory : other;
      done += channel->receive_some(target.span().subspan(done));
      channel->peek();
      if (done > 0) break;
    }
    // Where the first bytes went is decided; the rest follows them.
    std::vector<std::byte> rest(bytes - done);
    const Status status = receive_all(bell, *channel, rest);
    ASSERT_TRUE(status.is_ok()) << status.to_string();
    EXPECT_TRUE(std::equal(rest.begin(), rest.end(), data.begin() + static_cast<std::ptrdiff_t>(done)));
  });
}

// The same memory again and again for whatever comes next: copies begun for a later place in
// it must not arrive over what was put there meanwhile.
TEST_F(CudaIpcChannelTest, OneWindowServesAStreamThoughMoreWasBegun) {
  LocalFabrics ranks(2, cuda_ipc_over_shm(), kRing);
  constexpr std::size_t kWindow = 20'000;
  const auto data = pattern(1'000'000, 21);
  ranks.run([&](int r) {
    auto channel = ranks.open(r, 1 - r, 13);
    if (r == 0) {
      GpuMemory memory(data.size() / 2);
      memory.write(std::span(data).last(data.size() / 2));
      ASSERT_TRUE(send_all(ranks.rank(0).doorbell(), *channel, std::span(data).first(data.size() / 2)).is_ok());
      ASSERT_TRUE(send_gpu(ranks.rank(0), *channel, memory.span()).is_ok());
      return;
    }
    GpuMemory window(kWindow);
    std::vector<std::byte> in;
    const Status status = wait_until(ranks.rank(1).doorbell(), *channel, [&] {
      for (std::size_t moved = 1; moved > 0 && in.size() < data.size();) {
        moved = channel->receive_some(window.span().first(std::min(kWindow, data.size() - in.size())));
        const auto there = window.read(moved);
        in.insert(in.end(), there.begin(), there.end());
      }
      return in.size() == data.size();
    });
    ASSERT_TRUE(status.is_ok()) << status.to_string();
    EXPECT_TRUE(in == data);
  });
}

TEST_F(CudaIpcChannelTest, LessThanWasBegunIsTakenWithoutLoss) {
  LocalFabrics ranks(2, cuda_ipc_over_shm(), kRing);
  const std::size_t bytes = 300'000;
  const auto data = pattern(bytes, 4);
  ranks.run([&](int r) {
    auto channel = ranks.open(r, 1 - r, 9);
    GpuMemory memory(bytes);
    if (r == 0) {
      memory.write(data);
      ASSERT_TRUE(send_gpu(ranks.rank(0), *channel, memory.span()).is_ok());
      return;
    }
    channel->receive_some(memory.span());
    std::size_t done = 0;
    const Status status = wait_until(ranks.rank(1).doorbell(), *channel, [&] {
      for (std::size_t moved = 1; moved > 0 && done < bytes; done += moved) {
        const std::size_t most = std::min<std::size_t>(bytes - done, 1000 + done % 777);
        moved = channel->receive_some(memory.span().subspan(done, most));
      }
      return done == bytes;
    });
    ASSERT_TRUE(status.is_ok()) << status.to_string();
    EXPECT_TRUE(memory.read() == data);
  });
}

TEST_F(CudaIpcChannelTest, CopyingSendsOfGpuMemoryLeaveItToTheCaller) {
  LocalFabrics ranks(2, cuda_ipc_over_shm(), kRing);
  ranks.run([&](int r) {
    auto channel = ranks.open(r, 1 - r, 10);
    for (const std::size_t bytes : kSizes) {
      const auto data = pattern(bytes, bytes + 1);
      if (r == 0) {
        GpuMemory memory(bytes);
        memory.write(data);
        ASSERT_TRUE(send_all(ranks.rank(0).doorbell(), *channel, memory.span()).is_ok());
        memory.write(pattern(bytes, 0));  // Sent means copied.
        continue;
      }
      std::vector<std::byte> in(bytes);
      ASSERT_TRUE(receive_all(ranks.rank(1).doorbell(), *channel, in).is_ok());
      ASSERT_TRUE(in == data) << bytes;
    }
  });
}

TEST_F(CudaIpcChannelTest, ClosingBeforeTheMemoryIsReadIsAnErrorThatNamesThePeer) {
  LocalFabrics ranks(2, cuda_ipc_over_shm(), kRing);
  auto in = ranks.open(1, 0, 11);
  auto out = ranks.open(0, 1, 11);
  GpuMemory memory(100'000);
  memory.write(pattern(100'000, 1));
  std::byte greeting{};
  ASSERT_TRUE(send_all(ranks.rank(1).doorbell(), *in, std::span(&greeting, 1)).is_ok());
  ASSERT_TRUE(receive_all(ranks.rank(0).doorbell(), *out, std::span(&greeting, 1)).is_ok());
  std::size_t sent = 0;
  ASSERT_TRUE(wait_until(ranks.rank(0).doorbell(), *out, [&] {
                return (sent = out->send_in_place(memory.span())) > 0;
              }).is_ok());
  EXPECT_EQ(sent, 100'000u);
  EXPECT_FALSE(out->drained());
  out.reset();
  std::vector<std::byte> got(100'000);
  const Status status = receive_all(ranks.rank(1).doorbell(), *in, got);
  EXPECT_FALSE(status.is_ok());
  EXPECT_NE(status.message().find("rank 0"), std::string::npos) << status.to_string();
}

TEST_F(CudaIpcChannelTest, ManySegmentsMayBeOpenAndNoneIsLost) {
  LocalFabrics ranks(2, cuda_ipc_over_shm(), kRing);
  constexpr std::size_t kPart = 1000;
  constexpr std::size_t kParts = 300;
  const auto data = pattern(kPart * kParts, 12);
  ranks.run([&](int r) {
    auto channel = ranks.open(r, 1 - r, 12);
    GpuMemory memory(data.size());
    if (r == 0) {
      memory.write(data);
      for (std::size_t part = 0; part < kParts; ++part) {
        std::span<const std::byte> rest = memory.span().subspan(part * kPart, kPart);
        ASSERT_TRUE(wait_until(ranks.rank(0).doorbell(), *channel, [&] {
                      rest = rest.subspan(channel->send_in_place(rest));
                      return rest.empty();
                    }).is_ok());
      }
      ASSERT_TRUE(wait_until(ranks.rank(0).doorbell(), *channel, [&] {
                    channel->progress();
                    return channel->drained();
                  }).is_ok());
      return;
    }
    ASSERT_TRUE(receive_all(ranks.rank(1).doorbell(), *channel, memory.span()).is_ok());
    EXPECT_TRUE(memory.read() == data);
  });
}

}  // namespace
}  // namespace trireme::test
