// Messages between two ranks, both in one thread over channels of any size.
#include "collectives/execute/post_office.h"

#include <gtest/gtest.h>
#include <trireme/base/philox.h>

#include <memory>

#include "tests/collectives/memory_channel.h"

namespace trireme {
namespace {

class PostOffices : public testing::Test {
 protected:
  void make(std::size_t capacity, std::size_t glimpse) {
    auto [left, right] = test::memory_channels(capacity, glimpse);
    offices[0] = std::make_unique<PostOffice>(std::move(left), 0);
    offices[1] = std::make_unique<PostOffice>(std::move(right), 1);
  }
  std::unique_ptr<OperationState> post(int rank, CallKind kind, std::vector<std::int32_t>& data, int tag,
                                       DataType type = DataType::i32) {
    auto operation = std::make_unique<OperationState>();
    operation->call.kind = kind;
    operation->call.type = type;
    operation->call.root = 1 - rank;
    operation->call.tag = tag;
    operation->call.count = data.size() * sizeof(std::int32_t) / size_of(type);
    operation->input = data.data();
    operation->output = data.data();
    operation->progress_ticks = ++ticks;
    offices[rank]->post(operation.get());
    return operation;
  }
  void advance(int rounds = 1'000'000) {
    for (int idle = 0; idle < 2 && rounds-- > 0;) {
      bool moved = offices[0]->advance();
      moved |= offices[1]->advance();
      idle = moved ? 0 : idle + 1;
    }
  }
  std::unique_ptr<PostOffice> offices[2];
  std::uint64_t ticks = 0;
};

TEST_F(PostOffices, TagsMatchInAnyOrder) {
  for (const std::size_t size : {0u, 1u, 100u, 5000u, 100'000u}) {
    make(4096, 1000);
    std::vector<std::int32_t> first(size, 1), second(size, 2), third(size, 3);
    std::vector<std::int32_t> a(size), b(size), c(size);
    const auto s1 = post(0, CallKind::send, first, 5);
    const auto s2 = post(0, CallKind::send, second, 6);
    const auto s3 = post(0, CallKind::send, third, 5);
    advance();
    const auto r2 = post(1, CallKind::receive, b, 6);
    advance();
    EXPECT_TRUE(r2->done());
    const auto r1 = post(1, CallKind::receive, a, 5);
    const auto r3 = post(1, CallKind::receive, c, 5);
    advance();
    for (const auto* operation : {&s1, &s2, &s3, &r1, &r3}) EXPECT_TRUE((*operation)->done()) << size;
    EXPECT_EQ(a, first);
    EXPECT_EQ(b, second);
    EXPECT_EQ(c, third);
  }
}

TEST_F(PostOffices, RandomTrafficBothWays) {
  const PhiloxKey key = make_philox_key(11, 2, 0);
  for (const std::size_t glimpse : {1u, 17u, 4096u}) {
    make(2048, glimpse);
    std::vector<std::unique_ptr<OperationState>> operations;
    std::vector<std::unique_ptr<std::vector<std::int32_t>>> buffers;
    std::vector<std::pair<std::size_t, std::size_t>> pairs;  // Sent and received buffer.
    for (std::uint64_t i = 0; i < 200; ++i) {
      const int from = static_cast<int>(philox_below(key, i, 0, 2));
      const int tag = static_cast<int>(philox_below(key, i, 1, 3));
      const std::size_t size = philox_below(key, i, 2, 10) == 0 ? 4000 : philox_below(key, i, 3, 40);
      buffers.push_back(std::make_unique<std::vector<std::int32_t>>(size, static_cast<std::int32_t>(i)));
      buffers.push_back(std::make_unique<std::vector<std::int32_t>>(size, -1));
      pairs.emplace_back(buffers.size() - 2, buffers.size() - 1);
      const bool receive_first = philox_below(key, i, 4, 2) == 0;
      for (int half = 0; half < 2; ++half) {
        const bool receive = (half == 0) == receive_first;
        operations.push_back(receive ? post(1 - from, CallKind::receive, *buffers[buffers.size() - 1], tag)
                                     : post(from, CallKind::send, *buffers[buffers.size() - 2], tag));
        if (philox_below(key, i, 5 + static_cast<std::uint64_t>(half), 3) == 0) advance(5);
      }
    }
    advance();
    for (const auto& operation : operations) ASSERT_TRUE(operation->done());
    for (const auto& [sent, received] : pairs) EXPECT_EQ(*buffers[sent], *buffers[received]);
    EXPECT_EQ(offices[0]->pending() + offices[1]->pending(), 0u);
  }
}

TEST_F(PostOffices, WhatBeginsTakesTurnsWithDataUnderWay) {
  make(65536, 65536);
  std::vector<std::int32_t> large[2], small(10, 3), in[2], small_in(10);
  std::vector<std::unique_ptr<OperationState>> operations;
  for (int i : {0, 1}) {
    large[i].assign(1'000'000, i);
    in[i].resize(large[i].size());
    operations.push_back(post(0, CallKind::send, large[i], i));
    operations.push_back(post(1, CallKind::receive, in[i], i));
  }
  advance(5);  // Both are announced and cleared.
  operations.push_back(post(0, CallKind::send, small, 2));
  const auto receive = post(1, CallKind::receive, small_in, 2);
  for (int round = 0; round < 1'000'000 && !receive->done(); ++round) advance(1);
  ASSERT_TRUE(receive->done());
  EXPECT_EQ(small_in, small);
  EXPECT_FALSE(operations[3]->done()) << "it came behind all the data that had been asked for";
  advance();
  for (const auto& operation : operations) EXPECT_TRUE(operation->done());
  EXPECT_EQ(in[0], large[0]);
  EXPECT_EQ(in[1], large[1]);
}

TEST_F(PostOffices, UnexpectedMessagesAreBounded) {
  make(1 << 20, 1 << 20);
  std::vector<std::vector<std::int32_t>> data(100, std::vector<std::int32_t>(2000, 7));  // 8000 bytes each.
  std::vector<std::unique_ptr<OperationState>> sends;
  for (auto& message : data) sends.push_back(post(0, CallKind::send, message, 1));
  std::vector<std::int32_t> other(1);
  const auto never = post(1, CallKind::receive, other, 2);  // Makes rank 1 take in what comes.
  advance();
  const auto done =
      static_cast<std::size_t>(std::count_if(sends.begin(), sends.end(), [](const auto& s) { return s->done(); }));
  EXPECT_GE(done, 30u);
  EXPECT_LE(done * 8000, kUnexpectedBytes);
  std::vector<std::int32_t> in(2000);
  for (std::size_t i = 0; i < sends.size(); ++i) {
    const auto receive = post(1, CallKind::receive, in, 1);
    advance();
    ASSERT_TRUE(receive->done()) << i;
  }
  EXPECT_TRUE(sends.back()->done());
  offices[1]->fail(aborted("test"));
  EXPECT_TRUE(never->done());
}

TEST_F(PostOffices, AnotherCountOrTypeIsAMismatch) {
  for (const bool receive_first : {true, false}) {
    for (const std::size_t size : {10u, 5000u}) {
      make(65536, 65536);
      std::vector<std::int32_t> sent(size), received(size - 1);
      std::unique_ptr<OperationState> receive;
      if (receive_first) receive = post(1, CallKind::receive, received, 0);
      const auto send = post(0, CallKind::send, sent, 0);
      advance();
      if (!receive_first) {
        std::vector<std::int32_t> unrelated(1);
        const auto other = post(1, CallKind::receive, unrelated, 9);
        advance();
        receive = post(1, CallKind::receive, received, 0);
        advance();
        ASSERT_TRUE(offices[1]->mismatch());
        offices[1]->fail(aborted("test"));
      }
      ASSERT_TRUE(offices[1]->mismatch());
      EXPECT_EQ(offices[1]->mismatch()->send.count, size);
      EXPECT_EQ(offices[1]->mismatch()->receive.count, size - 1);
      offices[0]->fail(aborted("test"));
      offices[1]->fail(aborted("test"));
      EXPECT_TRUE(receive->done());
    }
  }
}

TEST_F(PostOffices, NonsenseIsNoticed) {
  auto [left, right] = test::memory_channels(4096, 4096);
  PostOffice office(std::move(right), 1);
  const std::vector<std::byte> junk(64, std::byte{0x33});
  left->send_some(junk);
  EXPECT_TRUE(office.advance());
  EXPECT_EQ(office.error().code(), StatusCode::data_loss);
}

}  // namespace
}  // namespace trireme
