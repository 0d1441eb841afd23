#include "runtime/transport/verbs/verbs_flow.h"

#include <algorithm>
#include <deque>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace trireme::test {
namespace {

struct Announced {
  std::uint32_t immediate = 0;
  std::uint32_t bytes = 0;
};

// Both ends of a stream and the rails between, stepped at random.
class Stream {
 public:
  Stream(std::size_t rails, std::uint64_t own, std::uint64_t peers, unsigned seed)
      : send(rails, own), receive(rails, peers), rails_(rails), memory_(peers), random_(seed) {
    send.connect(peers);
  }

  void stage(std::uint64_t bytes) { send.stage(std::min(bytes, send.room())); }
  void stage_in_place(std::uint64_t bytes) {
    if (send.unposted() != 0) return;
    if (const auto fragment = send.next_in_place(bytes)) travel(*fragment);
  }
  void post() {
    while (const auto fragment = send.next()) travel(*fragment);
  }
  // A rail delivers, in its own order.
  void deliver() {
    Rail& rail = rails_[random_() % rails_.size()];
    if (rail.messages.empty()) return;
    const Announced message = rail.messages.front();
    rail.messages.pop_front();
    rail.numbers_done.push_back(rail.numbers.front());
    rail.numbers.pop_front();
    ASSERT_TRUE(receive.arrived(message.immediate, message.bytes).is_ok());
  }
  void complete() {
    Rail& rail = rails_[random_() % rails_.size()];
    if (rail.numbers_done.empty()) return;
    send.completed(rail.numbers_done.front());
    rail.numbers_done.pop_front();
  }
  void read(std::uint64_t most) {
    std::uint64_t bytes = std::min(most, receive.readable());
    for (std::uint64_t i = 0; i < bytes; ++i) {
      const std::uint64_t position = receive.head() + i;
      ASSERT_EQ(memory_[position % memory_.size()], static_cast<unsigned char>(position * 7)) << position;
    }
    receive.consume(bytes);
    if (receive.credit_due()) credits_.push_back(receive.take_credit());
  }
  void credit() {
    if (credits_.empty()) return;
    ASSERT_TRUE(send.credited(credits_.front()).is_ok());
    credits_.pop_front();
  }
  bool quiet() const {
    return credits_.empty() && std::all_of(rails_.begin(), rails_.end(), [](const Rail& rail) {
             return rail.messages.empty() && rail.numbers_done.empty();
           });
  }
  std::size_t under_way(std::size_t rail) const { return rails_[rail].messages.size(); }
  std::size_t used_rails() const {
    return static_cast<std::size_t>(std::count_if(rails_.begin(), rails_.end(), [](const Rail& r) { return r.used; }));
  }

  VerbsSendFlow send;
  VerbsReceiveFlow receive;

 private:
  struct Rail {
    std::deque<Announced> messages;
    std::deque<std::uint64_t> numbers;
    std::deque<std::uint64_t> numbers_done;
    bool used = false;
  };

  void travel(const VerbsFragment& fragment) {
    // In one piece in the receiver's ring.
    ASSERT_LE(fragment.position % memory_.size() + fragment.bytes, memory_.size());
    for (std::uint64_t i = 0; i < fragment.bytes; ++i) {
      memory_[(fragment.position + i) % memory_.size()] = static_cast<unsigned char>((fragment.position + i) * 7);
    }
    Rail& rail = rails_[fragment.rail];
    rail.used = true;
    rail.messages.push_back({encode_verbs_message(VerbsMessageKind::data, fragment.number), fragment.bytes});
    rail.numbers.push_back(fragment.number);
  }

  std::vector<Rail> rails_;
  std::vector<unsigned char> memory_;
  std::deque<std::uint32_t> credits_;
  std::mt19937 random_;
};

TEST(VerbsFlow, EveryByteArrivesInOrderWhateverTheRailsDo) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const std::size_t rails = 1 + random() % 4;
    const std::uint64_t own = std::uint64_t{64} << random() % 12;
    const std::uint64_t peers = std::uint64_t{64} << random() % 12;
    Stream stream(rails, own, peers, seed);
    for (int step = 0; step < 4000; ++step) {
      switch (random() % 7) {
        case 0:
          stream.stage(random() % 3000);
          break;
        case 1:
          stream.post();
          break;
        case 2:
          stream.stage_in_place(random() % 3000);
          break;
        case 3:
          stream.deliver();
          break;
        case 4:
          stream.complete();
          break;
        case 5:
          stream.read(random() % 5000);
          break;
        case 6:
          stream.credit();
          break;
      }
      for (std::size_t rail = 0; rail < rails; ++rail) {
        ASSERT_LE(stream.under_way(rail), static_cast<std::size_t>(kVerbsFragmentsPerRail));
      }
    }
    // When the reader takes everything, everything staged arrives: nothing waits for a credit that is not due.
    for (int step = 0; step < 200'000 && !(stream.send.drained() && stream.quiet()); ++step) {
      stream.post();
      stream.deliver();
      stream.complete();
      stream.read(UINT64_MAX);
      stream.credit();
    }
    EXPECT_TRUE(stream.send.drained()) << "seed " << seed;
    EXPECT_EQ(stream.receive.head(), stream.send.tail()) << "seed " << seed;
  }
}

TEST(VerbsFlow, OneByteMessagesNeverOverrunTheReceiveQueue) {
  Stream stream(1, 1 << 20, 1 << 20, 1);
  for (int i = 0; i < 5 * kVerbsFragmentsPerRail; ++i) {
    stream.stage(1);
    stream.post();
  }
  EXPECT_EQ(stream.under_way(0), static_cast<std::size_t>(kVerbsFragmentsPerRail));
  EXPECT_EQ(stream.send.unposted(), 4u * kVerbsFragmentsPerRail);
}

TEST(VerbsFlow, LargeTransfersUseAllRailsAndSmallOnesTheFirst) {
  Stream large(3, 1 << 20, 1 << 20, 1);
  large.stage(600'000);
  large.post();
  EXPECT_EQ(large.used_rails(), 3u);
  Stream small(3, 1 << 20, 1 << 20, 1);
  small.stage(100);
  small.post();
  EXPECT_EQ(small.used_rails(), 1u);
  EXPECT_EQ(small.under_way(0), 1u);
}

TEST(VerbsFlow, WhatAPeerCannotHaveSentIsRefused) {
  VerbsReceiveFlow receive(1, 1024);
  const auto data = [](std::uint64_t number) { return encode_verbs_message(VerbsMessageKind::data, number); };
  EXPECT_TRUE(receive.arrived(data(0), 1000).is_ok());
  EXPECT_EQ(receive.arrived(data(0), 10).code(), StatusCode::data_loss);     // Again.
  EXPECT_EQ(receive.arrived(data(1), 0).code(), StatusCode::data_loss);      // Empty.
  EXPECT_EQ(receive.arrived(data(1000), 10).code(), StatusCode::data_loss);  // Far ahead.
  EXPECT_EQ(receive.arrived(data(1), 100).code(), StatusCode::data_loss);    // Over what is unread.
  VerbsSendFlow send(1, 1024);
  send.connect(1024);
  EXPECT_EQ(send.credited(encode_verbs_message(VerbsMessageKind::credit, 1)).code(), StatusCode::data_loss);
}

TEST(VerbsFlow, ValuesSurviveTheWrapOfTheirThirtyBits) {
  for (std::uint64_t base : {std::uint64_t{0}, std::uint64_t{kVerbsValueMask} - 3, std::uint64_t{5} << 30}) {
    for (std::uint64_t ahead : {0, 1, 7, 1 << 28}) {
      const std::uint32_t sent = encode_verbs_message(VerbsMessageKind::credit, base + ahead);
      EXPECT_EQ(verbs_message_value(sent, base), base + ahead);
      EXPECT_EQ(verbs_message_kind(sent), VerbsMessageKind::credit);
    }
  }
}

TEST(VerbsFlow, TheEndComesAfterTheLastByteOfTheSlowestRail) {
  VerbsReceiveFlow receive(2, 4096);
  receive.closed(encode_verbs_message(VerbsMessageKind::close, 2));
  EXPECT_FALSE(receive.at_end());
  ASSERT_TRUE(receive.arrived(encode_verbs_message(VerbsMessageKind::data, 1), 10).is_ok());
  EXPECT_EQ(receive.readable(), 0u);
  ASSERT_TRUE(receive.arrived(encode_verbs_message(VerbsMessageKind::data, 0), 5).is_ok());
  EXPECT_EQ(receive.readable(), 15u);
  EXPECT_FALSE(receive.at_end());
  receive.consume(15);
  EXPECT_TRUE(receive.at_end());
}

}  // namespace
}  // namespace trireme::test
