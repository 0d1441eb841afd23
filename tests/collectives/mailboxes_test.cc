// Mailboxes: what is posted can be read until all are past it, and who sleeps is rung.
#include "collectives/execute/mailboxes.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>

#include "tests/collectives/plan_ranks.h"

namespace trireme {
namespace {

Signature signature_of(std::uint64_t sequence) {
  Call call;
  call.kind = CallKind::barrier;
  call.sequence = sequence;
  return encode_signature(call);
}

void post(Mailboxes& boxes, std::uint64_t number, const std::string& text) {
  boxes.post(signature_of(number), std::as_bytes(std::span(text)));
}

TEST(Mailboxes, APostIsReadByAllAndStaysUntilAllArePastIt) {
  auto boxes = test::make_mailboxes(3);
  for (auto& own : boxes) ASSERT_TRUE(own->ready());
  for (std::uint64_t number = 1; number <= 7; ++number) {
    for (int rank = 0; rank < 3; ++rank) {
      Mailboxes& own = *boxes[static_cast<std::size_t>(rank)];
      ASSERT_TRUE(own.may_post());
      EXPECT_FALSE(own.has_posted(rank, number));
      post(own, number, "rank " + std::to_string(rank) + " post " + std::to_string(number));
      // Whoever has posted first cannot post again before all others have posted, too.
      EXPECT_EQ(boxes[0]->may_post(), rank == 2);
    }
    for (auto& reader : boxes) {
      for (int rank = 0; rank < 3; ++rank) {
        ASSERT_TRUE(reader->has_posted(rank, number));
        const std::string expected = "rank " + std::to_string(rank) + " post " + std::to_string(number);
        EXPECT_EQ(std::memcmp(reader->payload(rank, number), expected.data(), expected.size()), 0);
        EXPECT_EQ(reader->signature(rank, number), signature_of(number));
      }
    }
  }
}

TEST(Mailboxes, ThePostBeforeTheLastCanStillBeRead) {
  auto boxes = test::make_mailboxes(2);
  for (auto& own : boxes) ASSERT_TRUE(own->ready());
  post(*boxes[0], 1, "first");
  post(*boxes[1], 1, "answer");
  ASSERT_TRUE(boxes[0]->may_post());
  post(*boxes[0], 2, "second");  // Rank 1 has not read the first one yet.
  ASSERT_TRUE(boxes[1]->has_posted(0, 1));
  EXPECT_EQ(std::memcmp(boxes[1]->payload(0, 1), "first", 5), 0);
  EXPECT_EQ(std::memcmp(boxes[1]->payload(0, 2), "second", 6), 0);
}

TEST(Mailboxes, TheLargestPostFits) {
  auto boxes = test::make_mailboxes(2);
  for (auto& own : boxes) ASSERT_TRUE(own->ready());
  std::vector<std::byte> large(static_cast<std::size_t>(plan::kMostPostedBytes), std::byte{0x3c});
  for (std::uint64_t number = 1; number <= 3; ++number) {
    for (auto& own : boxes) own->post(signature_of(number), large);
    ASSERT_TRUE(boxes[1]->has_posted(0, number));
    EXPECT_EQ(std::memcmp(boxes[1]->payload(0, number), large.data(), large.size()), 0);
  }
}

// Ranks hand over many times, each asleep whenever the other one is at work: a ring that is
// lost would leave both asleep until the deadline.
TEST(Mailboxes, WhoSleepsIsRungByTheNextPost) {
  constexpr std::uint64_t kPosts = 3000;
  const std::size_t each = (Mailboxes::bytes() + 63) / 64 * 64;
  const auto heap = SharedHeap::create("trireme-test", 2 * each).value();
  const auto bells = SharedHeap::create("trireme-test", 4096).value();
  DoorbellWord* words[2] = {new (bells->base()) DoorbellWord, new (bells->base() + 128) DoorbellWord};
  const auto rank_main = [&](std::size_t rank) {
    std::vector<std::shared_ptr<PeerMemory>> peers(2);
    peers[1 - rank] = std::make_shared<PeerMemory>();
    peers[1 - rank]->arrive(heap, (1 - rank) * each, {bells, words[1 - rank]});
    Mailboxes boxes(static_cast<int>(rank), heap->base() + rank * each, heap, peers);
    ASSERT_TRUE(boxes.ready());
    Doorbell bell(words[rank], WaitPolicy{});  // Sleeps at once.
    const int other = static_cast<int>(1 - rank);
    for (std::uint64_t number = 1; number <= kPosts; ++number) {
      boxes.post(signature_of(number), {});
      const std::uint32_t seen = bell.value();
      if (boxes.has_posted(other, number)) continue;
      boxes.arm();
      const Deadline deadline = Deadline::after_ms(60'000);
      for (std::uint32_t value = seen; !boxes.has_posted(other, number); value = bell.value()) {
        ASSERT_TRUE(bell.sleep(value, deadline)) << "post " << number << " rang nobody";
      }
      boxes.disarm();
    }
  };
  std::thread second([&] { rank_main(1); });
  rank_main(0);
  second.join();
}

TEST(Mailboxes, MemoryThatIsTooShortIsAFailure) {
  const auto heap = SharedHeap::create("trireme-test", Mailboxes::bytes() + 4096).value();
  const auto small = SharedHeap::create("trireme-test", 64).value();
  const auto bells = SharedHeap::create("trireme-test", 4096).value();
  std::vector<std::shared_ptr<PeerMemory>> peers(2);
  peers[1] = std::make_shared<PeerMemory>();
  Mailboxes boxes(0, heap->base(), heap, peers);
  EXPECT_FALSE(boxes.ready());
  EXPECT_EQ(boxes.absent(), std::vector<int>{1});
  EXPECT_TRUE(boxes.failure().status.is_ok());
  peers[1]->arrive(small, 0, {bells, new (bells->base()) DoorbellWord});
  EXPECT_FALSE(boxes.ready());
  EXPECT_EQ(boxes.failure().rank, 1);
  EXPECT_EQ(boxes.failure().status.code(), StatusCode::data_loss);
}

}  // namespace
}  // namespace trireme
