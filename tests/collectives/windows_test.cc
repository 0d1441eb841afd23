// Windows: memory that all ranks of a host map, and collectives carried out in it.
#include "collectives/execute/windows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "collectives/select/selector.h"
#include "tests/collectives/reference.h"
#include "tests/collectives/thread_ranks.h"

namespace trireme {
namespace {

TEST(Windows, APlaceMeansTheSameToAllRanks) {
  std::vector<std::byte> memory(400);
  Windows windows(1);
  EXPECT_TRUE(windows.empty());
  windows.add({{memory.data(), 100}, {memory.data() + 100, 60}}, nullptr);
  windows.add({{memory.data() + 200, 0}, {memory.data() + 300, 100}}, nullptr);
  const auto inside = windows.find(memory.data() + 110, 50);
  ASSERT_TRUE(inside.has_value());
  EXPECT_EQ(inside->window, 0U);
  EXPECT_EQ(inside->offset, 10U);
  EXPECT_EQ(windows.at(0, *inside, 90), memory.data() + 10);
  EXPECT_EQ(windows.at(0, *inside, 91), std::nullopt);  // Past that rank's part.
  EXPECT_EQ(windows.find(memory.data() + 110, 51), std::nullopt);
  EXPECT_EQ(windows.find(memory.data() + 10, 1), std::nullopt);  // Another rank's part.
  EXPECT_EQ(windows.find(nullptr, 0)->window, Windows::Place::kNone);
  EXPECT_EQ(windows.own_bytes(), 160U);
  EXPECT_FALSE(windows.remove(memory.data()));
  EXPECT_TRUE(windows.remove(memory.data() + 100));
  EXPECT_EQ(windows.at(0, *inside, 1), std::nullopt);
  EXPECT_TRUE(windows.find(memory.data() + 350, 50).has_value());
}

// Every mixture of buffers in windows and elsewhere gives the same sums.
TEST(Windows, AnyMixtureOfBuffersGivesTheSameSums) {
  for (const int ranks : {2, 3, 4}) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{777}, std::size_t{100'003}}) {
      test::run_ranks(ranks, test::patient(), [&](Communicator& c) {
        const std::size_t bytes = count * sizeof(float);
        auto* in = static_cast<float*>(c.allocate(bytes).value());
        auto* out = static_cast<float*>(c.allocate(bytes + 64).value());
        std::vector<float> private_in(count);
        std::vector<float> private_out(count);
        for (int round = 0; round < 8; ++round) {
          // Bit r of the round: rank r's buffers lie elsewhere; the last rounds in place.
          const bool elsewhere = (round >> c.rank() & 1) != 0;
          float* input = elsewhere ? private_in.data() : in;
          float* output = elsewhere ? private_out.data() : out + 16;
          if (round % 2 == 0) output = input;
          for (std::size_t i = 0; i < count; ++i) {
            input[i] = static_cast<float>(i % 100 + static_cast<std::size_t>(10 * c.rank() + round));
          }
          const Status status = c.all_reduce(input, output, count, DataType::f32, ReduceOp::sum);
          ASSERT_TRUE(status.is_ok()) << status.to_string();
          for (std::size_t i = 0; i < count; ++i) {
            const auto each = static_cast<float>(i % 100 + static_cast<std::size_t>(round));
            const auto n = static_cast<float>(ranks);
            ASSERT_EQ(output[i], n * each + 10 * n * (n - 1) / 2) << i << " in round " << round;
          }
        }
        EXPECT_TRUE(c.deallocate(in).is_ok());
        EXPECT_TRUE(c.deallocate(out).is_ok());
        EXPECT_EQ(c.deallocate(out).code(), StatusCode::invalid_argument);
      });
    }
  }
}

// A place of one rank's part is found in the others', whose sizes may differ.
TEST(Windows, PartsOfOtherRanksAreMappedHere) {
  test::run_ranks(3, test::patient(), [](Communicator& c) {
    const std::size_t own = 1000 * static_cast<std::size_t>(c.rank());  // Rank 0 gives nothing.
    auto* memory = static_cast<std::byte*>(c.allocate(own).value());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 64, 0U);
    EXPECT_TRUE(std::all_of(memory, memory + own, [](std::byte b) { return b == std::byte{0}; }));
    if (own > 0) memory[own / 2] = static_cast<std::byte>(c.rank());
    ASSERT_TRUE(c.barrier().is_ok());
    if (c.rank() == 1) {
      EXPECT_EQ(static_cast<std::byte*>(c.mapped(memory, 2))[1000], std::byte{2});
    }
    EXPECT_EQ(c.mapped(&own, 2), nullptr);
    ASSERT_TRUE(c.barrier().is_ok());
  });
}

// Calls that were queued before a window came run as they were made.
TEST(Windows, CallsQueuedBeforeAWindowAgreeAboutIt) {
  test::run_ranks(3, test::patient(), [](Communicator& c) {
    std::vector<double> values(50'000, c.rank());
    std::vector<Work> works;
    for (int i = 0; i < 4; ++i) {
      works.push_back(c.all_reduce_async(values.data(), values.data(), values.size(), DataType::f64, ReduceOp::max));
    }
    auto* window = static_cast<double*>(c.allocate(values.size() * sizeof(double)).value());
    std::fill_n(window, values.size(), 1.0 + c.rank());
    works.push_back(c.all_reduce_async(window, window, values.size(), DataType::f64, ReduceOp::sum));
    for (Work& work : works) {
      const Status status = work.wait();
      ASSERT_TRUE(status.is_ok()) << status.to_string();
    }
    EXPECT_EQ(values, std::vector<double>(values.size(), 2));
    EXPECT_TRUE(std::all_of(window, window + values.size(), [](double value) { return value == 6; }));
  });
}

// Who never calls allocate() is named.
TEST(Windows, AllocateNamesWhoHasNotCome) {
  CommunicatorOptions hasty;
  hasty.timeout_ms = 300;
  std::atomic<bool> refused = false;
  test::run_ranks(2, hasty, [&](Communicator& c) {
    if (c.rank() == 0) {
      const auto window = c.allocate(1000);
      EXPECT_EQ(window.status().code(), StatusCode::deadline_exceeded);
      EXPECT_NE(window.status().message().find("rank 1"), std::string::npos) << window.status().to_string();
      refused = true;
      return;
    }
    while (!refused) std::this_thread::yield();
  });
  EXPECT_TRUE(refused);
}

// At two ranks other algorithms cost as much by their formulas: rounding must not decide.
TEST(Windows, AreUsedAtEverySizeThatIsNotPosted) {
  const Selector selector({1e-6, 1 / 8e9, 1e-10}, {});
  for (std::int64_t bytes = 64 << 10; bytes <= std::int64_t{1} << 32; bytes *= 2) {
    for (const std::int64_t more : {0, 4, 4000}) {
      plan::Request request{plan::Collective::all_reduce, 2, 0, (bytes + more) / 4, 4, false};
      request.shared_memory = request.windows = true;
      EXPECT_EQ(selector.choose(request)->name, "slices") << bytes + more;
    }
  }
}

TEST(Windows, OneRankAloneHasMemory) {
  test::run_ranks(1, test::patient(), [](Communicator& c) {
    auto* memory = static_cast<int*>(c.allocate(sizeof(int)).value());
    *memory = 5;
    EXPECT_TRUE(c.all_reduce(memory, memory, 1, DataType::i32, ReduceOp::sum).is_ok());
    EXPECT_EQ(*memory, 5);
    EXPECT_TRUE(c.deallocate(memory).is_ok());
  });
}

// Ranks that disagree about a call in a window are told so, as about any other.
TEST(Windows, DisagreementsAreNamed) {
  test::run_ranks(3, test::patient(), [](Communicator& c) {
    auto* window = static_cast<float*>(c.allocate(1 << 20).value());
    const std::size_t count = c.rank() == 1 ? 200'000 : 200'001;
    const Status status = c.all_reduce(window, window, count, DataType::f32, ReduceOp::sum);
    EXPECT_EQ(status.code(), StatusCode::mismatch) << status.to_string();
    EXPECT_NE(status.message().find("200001"), std::string::npos) << status.to_string();
  });
}

}  // namespace
}  // namespace trireme
