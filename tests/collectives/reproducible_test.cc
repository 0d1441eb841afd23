// Reproducible communicators: the same bits whatever the algorithm, transport, in-place or
// not, and whatever the order of ranks; and close to the exact sum.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <mutex>

#include <trireme/base/philox.h>

#include "tests/collectives/reference.h"
#include "tests/collectives/thread_ranks.h"

namespace trireme {
namespace {

using test::patient;
using test::run_ranks;

constexpr std::size_t kCount = 1003;

// Contribution `which` of widely different magnitudes.
std::vector<std::byte> contribution(DataType type, int which, std::size_t count) {
  const PhiloxKey key = make_philox_key(21, 1, 0);
  std::vector<std::byte> data(count * size_of(type));
  const int spread = type == DataType::f64 ? 40 : (type == DataType::f8_e4m3 ? 4 : 9);
  for (std::size_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::uint64_t>(which);
    const int exponent = static_cast<int>(philox_below(key, at, 2 * i, static_cast<std::uint64_t>(spread)));
    test::store(type, data.data(), i, std::ldexp(philox_normal(key, at, 2 * i + 1), exponent - spread / 2));
  }
  return data;
}

struct Setting {
  const char* algorithm;
  const char* transport;
  bool reversed;  // Rank r contributes what rank n - 1 - r does elsewhere.
  bool in_place;
};

// Everything rank 0 gets, one result after the other.
std::vector<std::byte> results(int ranks, DataType type, const Setting& setting) {
  CommunicatorOptions options = patient();
  options.reproducible = true;
  options.algorithm = setting.algorithm;
  options.transport = setting.transport;
  std::vector<std::byte> all;
  run_ranks(ranks, options, [&](Communicator& c) {
    const int which = setting.reversed ? ranks - 1 - c.rank() : c.rank();
    std::vector<std::byte> mine;
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average}) {
      auto input = contribution(type, which, kCount);
      std::vector<std::byte> output(input.size());
      std::byte* target = setting.in_place ? input.data() : output.data();
      EXPECT_OK(c.all_reduce(input.data(), target, kCount, type, op));
      mine.insert(mine.end(), target, target + output.size());
      // The root of a reduction, and every part of a reduce-scatter, get the same.
      auto again = contribution(type, which, kCount);
      EXPECT_OK(c.reduce(again.data(), output.data(), kCount, type, op, 0));
      if (c.rank() == 0) {
        EXPECT_EQ(std::memcmp(output.data(), target, output.size()), 0);
      }
      const std::size_t part = kCount / static_cast<std::size_t>(ranks);
      std::vector<std::byte> scattered(part * size_of(type));
      EXPECT_OK(c.reduce_scatter(again.data(), scattered.data(), part, type, op));
      EXPECT_EQ(std::memcmp(scattered.data(), target + static_cast<std::size_t>(c.rank()) * scattered.size(),
                            scattered.size()),
                0);
    }
    if (c.rank() == 0) all = mine;
  });
  return all;
}

TEST(Reproducible, TheSameBitsWhateverTheWay) {
  for (const DataType type : {DataType::f32, DataType::bf16, DataType::f16, DataType::f64, DataType::f8_e4m3}) {
    for (const int ranks : {2, 5}) {
      const auto expected = results(ranks, type, {"", "", false, false});
      for (const Setting& setting :
           {Setting{"ring", "shm", false, true}, Setting{"pairwise", "tcp", true, false},
            Setting{"recursive_halving", "", true, true}, Setting{"double_binary_tree", "", true, false}}) {
        EXPECT_EQ(results(ranks, type, setting), expected)
            << to_string(type) << " " << setting.algorithm << " " << ranks;
      }
    }
  }
}

// Shows that the test above can fail: the plain sums of these contributions do depend on order.
TEST(Reproducible, PlainSumsOfTheseDependOnOrder) {
  std::map<bool, std::vector<float>> sums;
  std::mutex mutex;
  for (const bool reversed : {false, true}) {
    run_ranks(5, patient(), [&](Communicator& c) {
      const auto input = contribution(DataType::f32, reversed ? 4 - c.rank() : c.rank(), kCount);
      std::vector<float> output(kCount);
      EXPECT_OK(c.all_reduce(input.data(), output.data(), kCount, DataType::f32, ReduceOp::sum));
      const std::lock_guard lock(mutex);
      sums[reversed] = output;
    });
  }
  EXPECT_NE(sums[false], sums[true]);
}

// Half a unit in the last place of the exact sum, and a little for what was rounded away.
TEST(Reproducible, SumsAreRoundedOnce) {
  constexpr int kRanks = 5;
  const auto bytes = results(kRanks, DataType::f32, {"", "", false, false});
  std::vector<double> exact(kCount);
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto input = contribution(DataType::f32, rank, kCount);
    for (std::size_t i = 0; i < kCount; ++i) exact[i] += test::load(DataType::f32, input.data(), i);
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(test::load(DataType::f32, bytes.data(), i), static_cast<double>(static_cast<float>(exact[i]))) << i;
  }
}

TEST(Reproducible, UnevenPartsAndScaledSumsAndExactValues) {
  CommunicatorOptions options = patient();
  options.reproducible = true;
  run_ranks(3, options, [](Communicator& c) {
    const std::vector<std::size_t> counts = {5, 0, 40};
    const std::size_t first = c.rank() == 2 ? 5 : (c.rank() == 1 ? 5 : 0);
    for (const DataType type : {DataType::f64, DataType::bf16}) {
      const auto input = test::make_input(type, ReduceOp::sum, c.rank(), 45);
      const std::size_t own = counts[static_cast<std::size_t>(c.rank())];
      std::vector<std::byte> output(own * size_of(type));
      EXPECT_OK(c.reduce_scatter_v(input.data(), output.data(), counts, type, ReduceOp::sum));
      EXPECT_EQ(test::compare_reduced(type, ReduceOp::sum, 3, output.data(), own, first), "");
    }
    float value = 2;
    EXPECT_OK(c.all_reduce(&value, &value, 1, DataType::f32, Reduction::scaled_sum(c.rank() + 1)));
    EXPECT_EQ(value, 12.0f);
    EXPECT_EQ(c.all_reduce(&value, &value, 1, DataType::f32, ReduceOp::product).code(), StatusCode::unsupported);
    EXPECT_OK(c.all_reduce(&value, &value, 1, DataType::f32, ReduceOp::max));
    std::int32_t whole = 3;
    EXPECT_OK(c.all_reduce(&whole, &whole, 1, DataType::i32, ReduceOp::product));
    EXPECT_EQ(whole, 27);
    // Several in flight.
    std::vector<float> a(5000, 0.5f), b(5000, 0.25f);
    Work one = c.all_reduce_async(a.data(), a.data(), a.size(), DataType::f32, ReduceOp::sum);
    Work two = c.all_reduce_async(b.data(), b.data(), b.size(), DataType::f32, ReduceOp::average);
    EXPECT_OK(two.wait());
    EXPECT_OK(one.wait());
    EXPECT_EQ(a[4999], 1.5f);
    EXPECT_EQ(b[4999], 0.25f);
  });
}

TEST(Reproducible, AllRanksMustAgreeToBe) {
  auto worlds = make_local_worlds(2);
  ASSERT_TRUE(worlds.is_ok());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([rank, world = std::move(worlds.value()[static_cast<std::size_t>(rank)])] {
      CommunicatorOptions options = patient();
      options.reproducible = rank == 1;
      const auto c = Communicator::create(world, options);
      EXPECT_EQ(c.status().code(), StatusCode::mismatch) << c.status().to_string();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace trireme
