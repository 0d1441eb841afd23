#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <thread>
#include <vector>

#include <trireme/device/thread_pool.h>
#include <trireme/platform/clock.h>

namespace trireme {
namespace {

TEST(ThreadPool, EveryTaskRunsExactlyOnce) {
  for (int threads = 1; threads <= 5; ++threads) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (const std::size_t tasks : {0U, 1U, 2U, 3U, 7U, 64U, 1000U}) {
      std::vector<std::atomic<int>> counts(tasks);
      pool.run(tasks, [&](std::size_t task) { counts[task].fetch_add(1); });
      for (const auto& count : counts) EXPECT_EQ(count.load(), 1);
    }
  }
}

TEST(ThreadPool, ResultsAreVisibleWithoutFurtherSynchronisation) {
  ThreadPool pool(3);
  std::vector<std::size_t> values(257);
  for (std::size_t round = 0; round < 2000; ++round) {
    pool.run(8, [&](std::size_t task) {
      for (std::size_t i = task; i < values.size(); i += 8) values[i] = round + i;
    });
    ASSERT_EQ(values[round % values.size()], round + round % values.size());
  }
}

TEST(ThreadPool, ManyShortRunsWithPauses) {
  ThreadPool pool(4);
  std::size_t sum = 0;
  for (int round = 0; round < 300; ++round) {
    if (round % 50 == 0) system_clock().sleep_ns(1'000'000);  // Lets the workers fall asleep.
    std::size_t parts[4] = {};
    pool.run(4, [&](std::size_t task) { parts[task] = task + 1; });
    sum += std::accumulate(parts, parts + 4, std::size_t{0});
  }
  EXPECT_EQ(sum, 3000U);
}

TEST(ThreadPool, MoreThanOneThreadReallyWorks) {
  ThreadPool pool(2);
  std::atomic<int> inside{0};
  // Ends only when both tasks are inside at the same time.
  pool.run(2, [&](std::size_t) {
    inside.fetch_add(1);
    while (inside.load() < 2) std::this_thread::yield();
  });
  EXPECT_EQ(inside.load(), 2);
}

TEST(ThreadPool, NestedRunsExecuteInline) {
  ThreadPool outer(3);
  ThreadPool inner(2);
  std::atomic<int> count{0};
  // A run within a run is recognised even from a thread of the pool in between.
  outer.run(6, [&](std::size_t) {
    outer.run(5, [&](std::size_t) { count.fetch_add(1); });
    inner.run(4, [&](std::size_t) { outer.run(3, [&](std::size_t) { count.fetch_add(1); }); });
  });
  EXPECT_EQ(count.load(), 6 * 5 + 6 * 4 * 3);
}

TEST(ThreadPool, CallersTakeTurns) {
  ThreadPool pool(2);
  std::atomic<int> count{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 3; ++caller) {
    callers.emplace_back([&] {
      for (int i = 0; i < 200; ++i) pool.run(5, [&](std::size_t) { count.fetch_add(1); });
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(count.load(), 3 * 200 * 5);
}

TEST(ThreadPool, RangesCoverEverythingOnceAndRespectTheGrain) {
  ThreadPool pool(4);
  for (const std::size_t count : {0U, 1U, 5U, 63U, 64U, 1000U}) {
    for (const std::size_t grain : {0U, 1U, 16U, 5000U}) {
      std::vector<std::atomic<int>> touched(count);
      std::atomic<std::size_t> pieces{0};
      pool.for_range(count, grain, [&](std::size_t begin, std::size_t end) {
        EXPECT_LT(begin, end);
        pieces.fetch_add(1);
        for (std::size_t i = begin; i < end; ++i) touched[i].fetch_add(1);
      });
      for (const auto& touch : touched) EXPECT_EQ(touch.load(), 1);
      EXPECT_LE(pieces.load(), 4U);
      EXPECT_TRUE(grain <= count || pieces.load() <= 1U);
    }
  }
}

TEST(ThreadPool, PoolsMayBeMadeAndDroppedAtAnyTime) {
  for (int i = 0; i < 50; ++i) {
    ThreadPool pool(3);
    std::atomic<int> count{0};
    if (i % 2 == 0) pool.run(9, [&](std::size_t) { count.fetch_add(1); });
    EXPECT_EQ(count.load(), i % 2 == 0 ? 9 : 0);
  }
}

TEST(ThreadPool, TheInlinePoolUsesTheCaller) {
  const auto self = std::this_thread::get_id();
  inline_pool().run(3, [&](std::size_t) { EXPECT_EQ(std::this_thread::get_id(), self); });
  EXPECT_EQ(inline_pool().threads(), 1);
}

}  // namespace
}  // namespace trireme
