#include "runtime/transport/api/doorbell.h"

#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <trireme/memory/shared_heap.h>

namespace trireme {
namespace {

constexpr WaitPolicy kSleepAtOnce{};

TEST(Doorbell, ReturnsAtOnceWhenTheWordHasChanged) {
  DoorbellWord word;
  Doorbell bell(&word, kSleepAtOnce);
  const std::uint32_t seen = bell.value();
  bell.ring();
  EXPECT_TRUE(bell.wait(seen, Deadline::never()));
}

TEST(Doorbell, TellsWhenTheDeadlinePassed) {
  DoorbellWord word;
  for (WaitPolicy policy : {kSleepAtOnce, WaitPolicy{100, 10}}) {
    Doorbell bell(&word, policy);
    EXPECT_FALSE(bell.wait(bell.value(), Deadline::after_ms(20)));
    EXPECT_FALSE(bell.wait(bell.value(), Deadline::after_ms(0)));
  }
  EXPECT_EQ(word.sleepers.load(), 0u);
}

// Each ring is answered by one, thousands of times: one that is lost hangs the test.
void ping_pong(WaitPolicy policy, int rounds) {
  DoorbellWord words[2];
  std::atomic<int> turn{0};
  const auto play = [&](int self) {
    Doorbell bell(&words[self], policy);
    for (int i = 0; i < rounds; ++i) {
      for (;;) {
        const std::uint32_t seen = bell.value();
        if (turn.load() % 2 == self) break;
        ASSERT_TRUE(bell.wait(seen, Deadline::after_ms(60'000)));
      }
      turn.fetch_add(1);
      Doorbell::ring(words[1 - self]);
    }
  };
  std::thread other([&] { play(1); });
  play(0);
  other.join();
}

TEST(Doorbell, LosesNoRingAsleep) {
  ping_pong(kSleepAtOnce, 2000);
}
TEST(Doorbell, LosesNoRingSpinning) {
  ping_pong(WaitPolicy{50, 2}, 5000);
}

TEST(Doorbell, WakesEveryWaiter) {
  DoorbellWord word;
  std::vector<std::thread> waiters;
  for (int i = 0; i < 4; ++i) {
    waiters.emplace_back([&word] { EXPECT_TRUE(Doorbell(&word, kSleepAtOnce).wait(0, Deadline::after_ms(60'000))); });
  }
  Doorbell::ring(word);
  for (std::thread& waiter : waiters) waiter.join();
}

TEST(Doorbell, WakesAnotherProcess) {
  auto heap = SharedHeap::create("doorbell-test", 4096);
  ASSERT_TRUE(heap.is_ok()) << heap.status().to_string();
  auto memory = (*heap)->allocate(sizeof(DoorbellWord));
  ASSERT_TRUE(memory.is_ok());
  auto* word = new (*memory) DoorbellWord;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(Doorbell(word, kSleepAtOnce).wait(0, Deadline::after_ms(60'000)) ? 0 : 1);
  while (word->sleepers.load() == 0) sched_yield();
  Doorbell::ring(*word);
  int state = -1;
  ASSERT_EQ(waitpid(child, &state, 0), child);
  EXPECT_EQ(state, 0);
}

TEST(WaitPolicy, SpinsOnlyWhenRanksFitTheCores) {
  EXPECT_GT(WaitPolicy::for_host(2, 2).spin_iterations, 0u);
  EXPECT_GT(WaitPolicy::for_host(1, 64).spin_iterations, 0u);
  EXPECT_EQ(WaitPolicy::for_host(3, 2).spin_iterations, 0u);
  EXPECT_GT(WaitPolicy::for_host(9, 2).yield_iterations, 0u);
}

}  // namespace
}  // namespace trireme
