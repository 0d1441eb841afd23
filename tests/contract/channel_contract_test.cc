// What every channel of every transport of the table must do, with ranks as threads.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "runtime/transport/table/api/transport_table.h"
#include "tests/contract/support.h"

namespace trireme::test {
namespace {

constexpr std::size_t kBuffer = 16 * 1024;

class ChannelContract : public testing::TestWithParam<ContractRow> {
 protected:
  void SetUp() override {
    setenv("TRIREME_TCP_STREAMS", std::to_string(GetParam().streams).c_str(), 1);
    if (const std::string reason = why_not_here(GetParam().factory); !reason.empty()) GTEST_SKIP() << reason;
    if (!GetParam().hosts) return;
    std::string why_not;
    hosts_ = Namespaces::create(kMostRanks, *GetParam().hosts, why_not);
    if (!hosts_) GTEST_SKIP() << why_not;
  }
  void TearDown() override { unsetenv("TRIREME_TCP_STREAMS"); }
  LocalFabrics make(int size, std::size_t channel_bytes = kBuffer) {
    if (!hosts_) return LocalFabrics(size, GetParam().factory, channel_bytes);
    return LocalFabrics(*hosts_, size, GetParam().factory, channel_bytes);
  }
  std::string transport() const { return std::string(GetParam().factory.name); }

 private:
  static constexpr int kMostRanks = 5;
  std::unique_ptr<Namespaces> hosts_;
};

std::vector<std::size_t> interesting_sizes() {
  return {0, 1, 7, 64, kBuffer - 1, kBuffer, kBuffer + 1, 3 * kBuffer + 17, std::size_t{3} << 20};
}

TEST_P(ChannelContract, BytesArriveInOrderBothWaysAtOnce) {
  LocalFabrics ranks = make(2);
  ranks.run([&](int r) {
    auto channel = ranks.open(r, 1 - r, 5);
    for (std::size_t bytes : interesting_sizes()) {
      const auto out = pattern(bytes, static_cast<std::uint64_t>(r));
      const auto expected = pattern(bytes, static_cast<std::uint64_t>(1 - r));
      std::vector<std::byte> in(bytes);
      const Status status = exchange_all(ranks.rank(r).doorbell(), *channel, out, in);
      ASSERT_TRUE(status.is_ok()) << status.to_string();
      ASSERT_TRUE(in == expected) << bytes << " bytes";
    }
    EXPECT_EQ(channel->transport(), transport());
  });
}

TEST_P(ChannelContract, EveryPairOfFiveRanksTalksAtOnce) {
  constexpr int kRanks = 5;
  LocalFabrics ranks = make(kRanks);
  ranks.run([&](int r) {
    std::vector<std::unique_ptr<Channel>> channels(kRanks);
    for (int peer = 0; peer < kRanks; ++peer) {
      if (peer != r) channels[static_cast<std::size_t>(peer)] = ranks.open(r, peer, 1);
    }
    // Rank by rank in the same order is enough: a round pairs each rank with one other.
    for (int round = 1; round < 8; ++round) {
      const int peer = r ^ round;
      if (peer >= kRanks) continue;
      const auto out = pattern(50'000, static_cast<std::uint64_t>(r * 100 + peer));
      std::vector<std::byte> in(out.size());
      const Status status = exchange_all(ranks.rank(r).doorbell(), *channels[static_cast<std::size_t>(peer)], out, in);
      ASSERT_TRUE(status.is_ok()) << status.to_string();
      ASSERT_TRUE(in == pattern(out.size(), static_cast<std::uint64_t>(peer * 100 + r)));
    }
  });
}

TEST_P(ChannelContract, ReserveAndPeekMoveTheSameStreamInPieces) {
  LocalFabrics ranks = make(2, 4096);
  constexpr std::size_t kBytes = 300'000;
  const auto data = pattern(kBytes, 9);
  ranks.run([&](int r) {
    auto channel = ranks.open(r, 1 - r, 2);
    std::mt19937 random(static_cast<unsigned>(r));
    std::size_t done = 0;
    const Status status = wait_until(ranks.rank(r).doorbell(), *channel, [&] {
      for (;;) {
        const std::size_t most = std::min<std::size_t>(kBytes - done, 1 + random() % 3000);
        std::size_t moved = 0;
        if (r == 0) {
          const auto room = channel->reserve();
          moved = std::min(room.size(), most);
          std::copy_n(data.begin() + static_cast<std::ptrdiff_t>(done), moved, room.begin());
          channel->commit(moved);
        } else {
          const auto arrived = channel->peek();
          moved = std::min(arrived.size(), most);
          EXPECT_TRUE(std::equal(arrived.begin(), arrived.begin() + static_cast<std::ptrdiff_t>(moved),
                                 data.begin() + static_cast<std::ptrdiff_t>(done)))
              << "at " << done;
          channel->consume(moved);
        }
        done += moved;
        if (moved == 0 || done == kBytes) return done == kBytes;
      }
    });
    EXPECT_TRUE(status.is_ok()) << status.to_string();
    if (r == 0) {
      EXPECT_TRUE(wait_until(ranks.rank(r).doorbell(), *channel, [&] { return channel->drained(); }).is_ok());
    }
  });
}

TEST_P(ChannelContract, PartOfAMessageDoesNotPutTheReaderToSleepForEver) {
  // The reader looks, wants more than there is, takes nothing and waits: it must be rung.
  // 256 divides the buffer, so a message never lies across its wrap.
  LocalFabrics ranks = make(2);
  const auto data = pattern(256, 1);
  ranks.run([&](int r) {
    auto channel = ranks.open(r, 1 - r, 3);
    auto back = ranks.open(r, 1 - r, 4);
    std::byte token{};
    Doorbell& bell = ranks.rank(r).doorbell();
    for (int i = 0; i < 200; ++i) {
      if (r == 0) {
        ASSERT_TRUE(send_all(bell, *channel, std::span(data).first(100)).is_ok());
        ASSERT_TRUE(send_all(bell, *channel, std::span(data).subspan(100)).is_ok());
        ASSERT_TRUE(receive_all(bell, *back, std::span(&token, 1)).is_ok());
        continue;
      }
      const Status status = wait_until(bell, *channel, [&] {
        const auto arrived = channel->peek();
        if (arrived.size() < data.size()) return false;
        EXPECT_EQ(std::memcmp(arrived.data(), data.data(), data.size()), 0);
        channel->consume(data.size());
        return true;
      });
      ASSERT_TRUE(status.is_ok()) << status.to_string();
      ASSERT_TRUE(send_all(bell, *back, std::span(&token, 1)).is_ok());
    }
  });
}

TEST_P(ChannelContract, ASlowReaderHoldsUpNoOtherContext) {
  LocalFabrics ranks = make(2);
  constexpr int kContexts = 6;
  constexpr std::size_t kStuck = std::size_t{24} << 20;  // More than any socket buffers.
  const auto stuck = pattern(kStuck, 77);
  std::atomic<bool> others_done{false};
  ranks.run([&](int r) {
    Doorbell& bell = ranks.rank(r).doorbell();
    auto slow = ranks.open(r, 1 - r, 100);
    std::vector<std::unique_ptr<Channel>> others;
    for (int c = 0; c < kContexts; ++c) others.push_back(ranks.open(r, 1 - r, static_cast<std::uint64_t>(c)));
    std::span<const std::byte> left = stuck;
    if (r == 0) {
      while (const std::size_t moved = slow->send_some(left)) left = left.subspan(moved);
      ASSERT_FALSE(left.empty());
    }
    for (int c = kContexts - 1; c >= 0; --c) {
      const auto out = pattern(3 * kBuffer, static_cast<std::uint64_t>(c));
      std::vector<std::byte> in(out.size());
      const Status status = exchange_all(bell, *others[static_cast<std::size_t>(c)], out, in);
      ASSERT_TRUE(status.is_ok()) << status.to_string();
      ASSERT_TRUE(in == out);
    }
    if (r == 0) {
      ASSERT_TRUE(send_all(bell, *slow, left).is_ok());
    } else {
      std::vector<std::byte> in(kStuck);
      ASSERT_TRUE(receive_all(bell, *slow, in).is_ok());
      EXPECT_TRUE(in == stuck);
    }
    others_done = true;
  });
  EXPECT_TRUE(others_done);
}

TEST_P(ChannelContract, OpensFromEitherSideFirst) {
  LocalFabrics ranks = make(2);
  for (int first : {0, 1}) {
    auto early = ranks.open(first, 1 - first, 40);
    const auto data = pattern(1000, static_cast<std::uint64_t>(first));
    std::size_t sent = early->send_some(data);  // May be 0: not connected yet.
    EXPECT_TRUE(early->status().is_ok());
    auto late = ranks.open(1 - first, first, 40);
    std::vector<std::byte> in(data.size());
    on_threads(2, [&](int side) {
      const Status status = side == 0 ? send_all(ranks.rank(first).doorbell(), *early, std::span(data).subspan(sent))
                                      : receive_all(ranks.rank(1 - first).doorbell(), *late, in);
      EXPECT_TRUE(status.is_ok()) << status.to_string();
    });
    EXPECT_TRUE(in == data);
  }
}

TEST_P(ChannelContract, WhatWasSentBeforeClosingArrivesAndThenTheEndIsNamed) {
  LocalFabrics ranks = make(2);
  for (int sender : {0, 1}) {
    const auto data = pattern(kBuffer / 2, static_cast<std::uint64_t>(sender));
    auto in_channel = ranks.open(1 - sender, sender, 8);
    {
      auto out_channel = ranks.open(sender, 1 - sender, 8);
      ASSERT_TRUE(send_all(ranks.rank(sender).doorbell(), *out_channel, data).is_ok());
    }
    Doorbell& bell = ranks.rank(1 - sender).doorbell();
    std::vector<std::byte> in(data.size());
    const Status received = receive_all(bell, *in_channel, in);
    ASSERT_TRUE(received.is_ok()) << received.to_string();
    EXPECT_TRUE(in == data);
    std::byte more{};
    const Status end = receive_all(bell, *in_channel, std::span(&more, 1));
    EXPECT_EQ(end.code(), StatusCode::peer_dead) << end.to_string();
    EXPECT_NE(end.message().find("rank " + std::to_string(sender)), std::string::npos) << end.to_string();
    EXPECT_TRUE(in_channel->reserve().empty() || transport() == "tcp");
  }
}

// Whoever closes need not have read what was coming in: its own last bytes arrive all the same.
TEST_P(ChannelContract, WhatWasSentArrivesThoughTheCloserLeavesBytesUnread) {
  LocalFabrics ranks = make(2);
  for (int closer : {0, 1}) {
    const auto context = static_cast<std::uint64_t>(20 + closer);
    auto kept = ranks.open(1 - closer, closer, context);
    auto closed = ranks.open(closer, 1 - closer, context);
    const auto unread = pattern(kBuffer / 2, 7);
    const auto data = pattern(std::size_t{8} << 20, static_cast<std::uint64_t>(closer));
    std::byte first{};
    ASSERT_TRUE(send_all(ranks.rank(1 - closer).doorbell(), *kept, std::span(unread).first(1)).is_ok());
    ASSERT_TRUE(receive_all(ranks.rank(closer).doorbell(), *closed, std::span(&first, 1)).is_ok());  // Connected.
    ASSERT_TRUE(send_all(ranks.rank(1 - closer).doorbell(), *kept, unread).is_ok());
    std::size_t sent = 0;  // As much as anything on the way holds.
    for (std::size_t part = 1; part > 0; sent += part) part = closed->send_some(std::span(data).subspan(sent));
    ASSERT_GT(sent, 0u);
    closed.reset();
    std::vector<std::byte> in(sent);
    const Status received = receive_all(ranks.rank(1 - closer).doorbell(), *kept, in);
    ASSERT_TRUE(received.is_ok()) << received.to_string() << " of " << sent << " bytes";
    EXPECT_TRUE(std::equal(in.begin(), in.end(), data.begin()));
  }
}

TEST_P(ChannelContract, ManyChannelsComeAndGoWithoutLeavingDescriptors) {
  LocalFabrics ranks = make(2);
  std::atomic<std::size_t> before{0};
  const auto round = [&](int rounds) {
    ranks.run([&](int r) {
      for (int i = 0; i < rounds; ++i) {
        auto channel = ranks.open(r, 1 - r, static_cast<std::uint64_t>(i % 3));  // Reopened, too.
        const auto out = pattern(10, static_cast<std::uint64_t>(r * 1000 + i));
        std::vector<std::byte> in(out.size());
        const Status status = exchange_all(ranks.rank(r).doorbell(), *channel, out, in);
        ASSERT_TRUE(status.is_ok()) << status.to_string();
        ASSERT_TRUE(in == pattern(10, static_cast<std::uint64_t>((1 - r) * 1000 + i)));
      }
    });
  };
  const auto settled = [] {  // Service threads close the last ones a moment later.
    std::size_t least = open_descriptors();
    for (int i = 0; i < 50; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      least = std::min(least, open_descriptors());
    }
    return least;
  };
  round(5);
  before = settled();
  round(200);
  EXPECT_LE(settled(), before.load());
}

TEST_P(ChannelContract, AForkedChildDisturbsNothing) {
  LocalFabrics ranks = make(2);
  auto early = ranks.open(0, 1, 60);
  auto early_peer = ranks.open(1, 0, 60);
  int release[2];
  ASSERT_EQ(pipe(release), 0);
  std::byte byte{7};
  std::byte got{};
  on_threads(2, [&](int side) {  // Connected before the fork, so the child holds copies.
    const Status status = side == 0 ? send_all(ranks.rank(0).doorbell(), *early, std::span(&byte, 1))
                                    : receive_all(ranks.rank(1).doorbell(), *early_peer, std::span(&got, 1));
    ASSERT_TRUE(status.is_ok()) << status.to_string();
  });
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    char ignored;
    close(release[1]);
    [[maybe_unused]] const ssize_t n = read(release[0], &ignored, 1);  // Lives until the parent is done.
    _exit(0);
  }
  early.reset();  // The peer notices the end although the child holds the same descriptors.
  const Status end = receive_all(ranks.rank(1).doorbell(), *early_peer, std::span(&got, 1));
  EXPECT_EQ(end.code(), StatusCode::peer_dead) << end.to_string();
  ranks.run([&](int r) {
    auto channel = ranks.open(r, 1 - r, 61);
    const auto out = pattern(100'000, static_cast<std::uint64_t>(r));
    std::vector<std::byte> in(out.size());
    const Status status = exchange_all(ranks.rank(r).doorbell(), *channel, out, in);
    ASSERT_TRUE(status.is_ok()) << status.to_string();
  });
  close(release[0]);
  close(release[1]);
  int state = 0;
  ASSERT_EQ(waitpid(child, &state, 0), child);
  EXPECT_EQ(state, 0);
}

TEST_P(ChannelContract, IdleChannelsUseNoProcessor) {
  LocalFabrics ranks = make(2);
  ranks.run([&](int r) {
    auto channel = ranks.open(r, 1 - r, 1);
    std::byte byte{};
    ASSERT_TRUE(exchange_all(ranks.rank(r).doorbell(), *channel, std::span(&byte, 1), std::span(&byte, 1)).is_ok());
    EXPECT_EQ(channel->receive_some(std::span(&byte, 1)), 0u);
    rusage before{};
    rusage after{};
    getrusage(RUSAGE_THREAD, &before);
    const Deadline end = Deadline::after_ms(400);
    while (ranks.rank(r).doorbell().wait(ranks.rank(r).doorbell().value(), end)) {
    }
    getrusage(RUSAGE_THREAD, &after);
    const auto microseconds = [](const rusage& usage) {
      return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1'000'000 + usage.ru_utime.tv_usec +
             usage.ru_stime.tv_usec;
    };
    EXPECT_LT(microseconds(after) - microseconds(before), 200'000);  // Half the time would be spinning.
    EXPECT_TRUE(channel->status().is_ok());
  });
}

TEST_P(ChannelContract, OpeningToNobodyIsRefused) {
  LocalFabrics ranks = make(2);
  for (int peer : {-1, 0, 2}) {
    const auto channel = ranks.rank(0).open_channel(peer, 1);
    ASSERT_FALSE(channel.is_ok());
    EXPECT_EQ(channel.status().code(), StatusCode::invalid_argument);
  }
}

INSTANTIATE_TEST_SUITE_P(Table, ChannelContract, testing::ValuesIn(contract_rows()),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace trireme::test
