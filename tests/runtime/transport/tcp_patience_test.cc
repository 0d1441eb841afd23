// How long a silent socket is asked, on a clock of our own.
#include "runtime/transport/tcp/tcp_patience.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

using Next = TcpPatience::Next;
constexpr std::uint64_t kSpin = 1600;
constexpr std::uint64_t kShort = kSpin / 32;

// Asks every nanosecond until it is to sleep; returns how long that took.
std::uint64_t ask(TcpPatience& patience, std::uint64_t& now) {
  const std::uint64_t begin = now;
  while (patience.nothing(now) != Next::sleep) ++now;
  return now - begin;
}

TEST(TcpPatience, ASilenceIsAskedForTheTimeGiven) {
  TcpPatience patience({.spin_ns = kSpin});
  std::uint64_t now = 77;
  EXPECT_EQ(ask(patience, now), kSpin);
  EXPECT_EQ(patience.nothing(now + 1'000'000), Next::sleep) << "the same silence";
}

TEST(TcpPatience, WhatWasInVainIsShortAndNowAndThenTriedInFull) {
  TcpPatience patience({.spin_ns = kSpin});
  std::uint64_t now = 0;
  std::uint64_t in_full = 0;
  for (int i = 0; i < 160; ++i) {
    const std::uint64_t took = ask(patience, now);
    EXPECT_TRUE(took == kSpin || took == kShort) << took;
    in_full += took == kSpin ? 1U : 0U;
    patience.received();  // After the sleep.
  }
  EXPECT_EQ(in_full, 10U);
}

TEST(TcpPatience, AnAnswerWhileAskingRestoresIt) {
  TcpPatience patience({.spin_ns = kSpin});
  std::uint64_t now = 0;
  for (int i = 0; i < 3; ++i) {
    ask(patience, now);
    patience.received();
  }
  patience.sent();
  EXPECT_EQ(patience.nothing(now), Next::ask_again);
  patience.received();
  EXPECT_EQ(ask(patience, now), kSpin);
}

TEST(TcpPatience, WhatComesWithoutSilenceTeachesNothing) {
  TcpPatience patience({.spin_ns = kSpin});
  std::uint64_t now = 0;
  ask(patience, now);
  patience.received();
  patience.received();
  EXPECT_EQ(ask(patience, now), kShort);
}

TEST(TcpPatience, AnAnswerAfterGivingWayIsNoReasonToSpin) {
  TcpPatience patience({.spin_ns = kSpin, .yields = 2});
  std::uint64_t now = 0;
  EXPECT_EQ(ask(patience, now), kSpin) << "in full, and without giving way";
  patience.received();
  unsigned in_full = 0;
  for (int silence = 0; silence < 64; ++silence) {  // The peer answers whenever we give way.
    const std::uint64_t begin = now;
    Next next = patience.nothing(now);
    while (next == Next::ask_again) next = patience.nothing(++now);
    if (next == Next::sleep) {
      EXPECT_EQ(now - begin, kSpin);
      ++in_full;
    } else {
      EXPECT_EQ(now - begin, kShort);
    }
    patience.received();
  }
  EXPECT_EQ(in_full, 4U);
}

TEST(TcpPatience, SendingBeginsAnew) {
  TcpPatience patience({.spin_ns = kSpin});
  EXPECT_EQ(patience.nothing(0), Next::ask_again);
  patience.sent();
  EXPECT_EQ(patience.nothing(kSpin), Next::ask_again);
  EXPECT_EQ(patience.nothing(2 * kSpin), Next::sleep);
}

TEST(TcpPatience, WithoutACoreItGivesWayAndThenSleeps) {
  TcpPatience patience({.spin_ns = 0, .yields = 3});
  for (int silence = 0; silence < 40; ++silence) {
    for (int i = 0; i < 3; ++i) EXPECT_EQ(patience.nothing(5), Next::give_way);
    EXPECT_EQ(patience.nothing(5), Next::sleep);
    patience.received();
  }
}

}  // namespace
}  // namespace trireme
