// Calls as programs make them: empty, huge, and with settings that differ between ranks.
#include <algorithm>
#include <cstdint>

#include <gtest/gtest.h>

#include "collectives/algorithms/algorithm.h"
#include "collectives/execute/call.h"
#include "collectives/execute/message.h"
#include "collectives/plan/api/check.h"
#include "collectives/select/tuning.h"
#include "runtime/platform/api/files.h"
#include "tests/collectives/thread_ranks.h"
#include "tests/regressions/regression_test.h"

namespace trireme::testing {
namespace {

using Calls = RegressionTest;

TEST_F(Calls, Nccl1328_DifferentSettingsNameTheVariableTheRanksAndTheValues) {
  const struct {
    const char* name;
    const char* first;
    const char* second;
  } cases[] = {{"TRIREME_ALGORITHM", "all_reduce=ring", "all_reduce=direct"}, {"TRIREME_TRANSPORT", "shm", "tcp"}};
  for (const auto& c : cases) {
    const RunResult result = trireme(job({"-n", "3", "--grace", "5"}, {"differ", c.name, c.first, c.second}));
    EXPECT_EQ(result.code, 2) << result.err;
    const std::vector<std::string> stories = lines_with(result, "failed:");
    EXPECT_FALSE(stories.empty()) << result.err;
    for (const std::string& story : stories) {
      for (const std::string& part : std::vector<std::string>{c.name, c.first, c.second, "rank 1 (", "mismatch"}) {
        EXPECT_NE(story.find(part), std::string::npos) << part << " is not in: " << story;
      }
    }
  }
}

// Ranks that plan by tables of their own would plan differently, and wait for each other.
TEST_F(Calls, Nccl1328_TuningTablesThatDifferAreSaidAndTheFirstRanksIsUsed) {
  const auto write_table = [&](const std::string& name, const std::string& fastest) {
    TuningTable table;
    table.machine = machine_identity();
    table.algorithms = algorithm_names();
    table.ranks = 3;
    table.network = {2e-6, 1e-10, 1e-10};
    for (const std::string algorithm : {"direct", "pairwise", "ring"}) {
      table.times.push_back({plan::Collective::all_reduce, algorithm, 8, algorithm == fastest ? 1e-7 : 1e-3});
    }
    EXPECT_TRUE(write_file_atomically(file(name), tuning_to_json(table)).is_ok());
    return file(name);
  };
  const RunResult result = trireme(
      job({"-n", "3"}, {"differ", "TRIREME_TUNING", write_table("first", "ring"), write_table("second", "pairwise")}));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(lines_with(result, "got 3, ").size(), 3u) << result.out;
  EXPECT_EQ(lines_with(result, "ring, because it took the least time when this machine was measured").size(), 3u)
      << result.out;
  EXPECT_NE(result.err.find("the tuning tables of rank 1 ("), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("is used by all"), std::string::npos) << result.err;
}

TEST(EmptyCalls, Pytorch85234_ZeroElementsAreLegalEverywhere) {
  for (int ranks : {1, 2, 5}) {
    test::run_ranks(ranks, test::patient(), [](Communicator& c) {
      const int next = (c.rank() + 1) % c.size();
      const int previous = (c.rank() + c.size() - 1) % c.size();
      for (const DataType type : {DataType::f32, DataType::bf16, DataType::u8}) {
        // Null is as good an empty buffer as any other.
        EXPECT_TRUE(c.all_reduce(nullptr, nullptr, 0, type, ReduceOp::sum).is_ok());
        EXPECT_TRUE(c.reduce(nullptr, nullptr, 0, type, ReduceOp::max, c.size() - 1).is_ok());
        EXPECT_TRUE(c.broadcast(nullptr, nullptr, 0, type, 0).is_ok());
        EXPECT_TRUE(c.all_gather(nullptr, nullptr, 0, type).is_ok());
        EXPECT_TRUE(c.reduce_scatter(nullptr, nullptr, 0, type, ReduceOp::sum).is_ok());
        Work sent = c.send_async(nullptr, 0, type, next, 3);
        EXPECT_TRUE(c.receive(nullptr, 0, type, previous, 3).is_ok());
        EXPECT_TRUE(sent.wait().is_ok());
      }
      std::int32_t value = c.rank() + 1;  // And what follows is not disturbed.
      EXPECT_TRUE(c.all_reduce(&value, &value, 1, DataType::i32, ReduceOp::sum).is_ok());
      EXPECT_EQ(value, c.size() * (c.size() + 1) / 2);
    });
  }
}

// Counts around the limits of 32 bits, without their memory: the plan's proof and the
// arithmetic of its parts.
TEST(LargeCounts, Ompi9611_PlansHoldBeyond32Bits) {
  const std::int64_t counts[] = {(std::int64_t{1} << 31) - 1, (std::int64_t{1} << 31) + 1, 2'200'000'000,
                                 (std::int64_t{1} << 32) + 3, std::int64_t{1} << 40};
  int proved = 0;
  for (const plan::Algorithm& algorithm : plan::algorithms()) {
    for (int collective = 0; collective < plan::kCollectiveCount; ++collective) {
      for (const std::int64_t count : counts) {
        for (const std::int64_t element_bytes : {1, 8}) {
          plan::Request request{static_cast<plan::Collective>(collective), 5, 0, count, element_bytes, false};
          request.shared_memory = request.windows = true;
          if (plan::is_rooted(request.collective)) request.root = 3;
          if (request.collective == plan::Collective::barrier || !algorithm.supports(request)) continue;
          const plan::Plan plan = plan::make_plan(algorithm, request);
          const Status status = plan::check_plan(plan, false);
          EXPECT_TRUE(status.is_ok()) << algorithm.name << " of " << count << ": " << status.to_string();
          EXPECT_GT(algorithm.cost(request, {}), 0) << algorithm.name << " of " << count;
          for (const plan::Program& program : plan.programs) {
            std::int64_t end = 0;
            std::int64_t largest = 0;
            for (std::int32_t chunk = 0; chunk < program.partition.chunks; ++chunk) {
              const Range part = program.partition.part(chunk);
              EXPECT_EQ(part.begin, end);
              end = part.end;
              largest = std::max(largest, part.size());
            }
            EXPECT_EQ(end, std::max(plan::input_elements(request, program.rank),
                                    plan::output_elements(request, program.rank)));
            if (program.scratch_slots > 0) {
              EXPECT_EQ(program.slot_elements, largest) << algorithm.name;
            }
          }
          ++proved;
        }
      }
    }
  }
  EXPECT_GE(proved, 50);
}

TEST(LargeCounts, Ompi9611_HeadersCarryCountsBeyond32Bits) {
  for (const std::uint64_t count : {(std::uint64_t{1} << 31), (std::uint64_t{1} << 32) + 7, std::uint64_t{1} << 45}) {
    const MessageHeader header{MessageKind::announce, DataType::i8, 1, count, 9};
    const auto decoded = decode_message_header(encode_message_header(header));
    ASSERT_TRUE(decoded.has_value());
    EXPECT_EQ(decoded->count, count);
  }
}

// 2.2 GB a rank, in place.
TEST_F(Calls, Ompi9611_TwoThousandTwoHundredMillionElementsLong) {
  const RunResult result = shell("$trireme -n 2 -- $rank_program large 2200000000");
  EXPECT_EQ(result.code, 0) << result.err << result.out;
  EXPECT_EQ(lines_with(result, "done").size(), 2U);
}

}  // namespace
}  // namespace trireme::testing
