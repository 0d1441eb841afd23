// Communicators that come and go: splits by the hundred cost nothing lasting, one rank
// costs nothing at all, survivors go on.
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <string>

#include "runtime/platform/api/files.h"
#include "tests/collectives/thread_ranks.h"

namespace trireme {
namespace {

using test::patient;
using test::run_ranks;

std::size_t entries(const std::string& folder) {
  const auto names = list_directory(folder);
  return names.is_ok() ? names.value().size() : 0;
}
std::size_t descriptors() {
  return entries("/proc/self/fd");
}
std::size_t threads() {
  return entries("/proc/self/task");
}
// Sanitizers keep freed memory for a while; 0 there.
std::size_t mapped_kib() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return 0;
#endif
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == "VmSize:") {
      std::size_t kib = 0;
      status >> kib;
      return kib;
    }
  }
  return 0;
}

void split_and_drop(int times) {
  std::atomic<std::size_t> early_descriptors{0};
  std::atomic<std::size_t> early_kib{0};
  run_ranks(2, patient(), [&](Communicator& c) {
    for (int i = 0; i < times; ++i) {
      auto part = c.split(0, c.rank());
      ASSERT_TRUE(part.is_ok()) << part.status().to_string();
      std::int32_t value = 1;
      EXPECT_OK(part.value()->all_reduce(&value, &value, 1, DataType::i32, ReduceOp::sum));
      EXPECT_EQ(value, 2);
      if (i == times / 4) {
        EXPECT_OK(c.barrier());
        early_descriptors = descriptors();
        early_kib = mapped_kib();
      }
    }
    EXPECT_OK(c.barrier());
    // Channels that peers are still closing are few; what leaks grows with every split.
    EXPECT_LT(descriptors(), early_descriptors + 32);
    EXPECT_LT(mapped_kib(), early_kib + 64 * 1024);
  });
}
TEST(Lifetime, ManySplitsLeaveNothing) {
  split_and_drop(200);
}
TEST(Lifetime, AThousandSplitsLeaveNothingLong) {
  split_and_drop(1000);
}

// No fabric, no thread, no descriptor beyond the world's own.
TEST(Lifetime, OneRankCostsNothing) {
  auto worlds = make_local_worlds(1);
  ASSERT_TRUE(worlds.is_ok());
  const std::size_t threads_before = threads();
  const std::size_t descriptors_before = descriptors();
  std::vector<std::shared_ptr<Communicator>> all;
  for (int i = 0; i < 50; ++i) {
    auto c = Communicator::create(worlds.value()[0], {});
    ASSERT_TRUE(c.is_ok());
    float in[4] = {1, 2, 3, 4}, out[4] = {};
    EXPECT_OK(c.value()->all_reduce(in, out, 4, DataType::f32, ReduceOp::average));
    EXPECT_OK(c.value()->all_to_all_async(in, out, 4, DataType::f32).wait());
    EXPECT_EQ(out[3], 4.0f);
    all.push_back(std::move(c).value());
  }
  EXPECT_EQ(threads(), threads_before);
  EXPECT_EQ(descriptors(), descriptors_before);
}

TEST(Shrink, WithoutThoseExcluded) {
  run_ranks(5, patient(), [](Communicator& c) {
    if (c.rank() == 1 || c.rank() == 4) {
      EXPECT_EQ(c.shrink({c.rank()}).status().code(), StatusCode::invalid_argument);
    } else {
      auto smaller = c.shrink({1, 4});
      ASSERT_TRUE(smaller.is_ok()) << smaller.status().to_string();
      Communicator& s = *smaller.value();
      EXPECT_EQ(s.size(), 3);
      EXPECT_EQ(s.world_rank(2), 3);
      EXPECT_EQ(s.world_rank(s.rank()), c.rank());
      std::int32_t value = c.rank();
      EXPECT_OK(s.all_reduce(&value, &value, 1, DataType::i32, ReduceOp::sum));
      EXPECT_EQ(value, 0 + 2 + 3);
      auto pair = s.split(s.rank() < 2 ? 0 : 1, 0);
      ASSERT_TRUE(pair.is_ok());
      EXPECT_EQ(pair.value()->size(), s.rank() < 2 ? 2 : 1);
    }
    EXPECT_OK(c.barrier());  // The larger one is as it was.
    EXPECT_EQ(c.shrink({7}).status().code(), StatusCode::invalid_argument);
  });
}

// After an abort, all go on in a new communicator.
TEST(Shrink, AfterAnAbort) {
  run_ranks(3, patient(), [](Communicator& c) {
    if (c.rank() == 1) c.abort("start over");
    while (c.barrier().is_ok()) {
    }
    auto again = c.shrink();
    ASSERT_TRUE(again.is_ok()) << again.status().to_string();
    EXPECT_EQ(again.value()->size(), 3);
    std::int32_t value = 1;
    EXPECT_OK(again.value()->all_reduce(&value, &value, 1, DataType::i32, ReduceOp::sum));
    EXPECT_EQ(value, 3);
    EXPECT_EQ(c.status().code(), StatusCode::aborted);
  });
}

}  // namespace
}  // namespace trireme
