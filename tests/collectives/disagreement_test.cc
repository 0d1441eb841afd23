// Calls that ranks disagree about, and counts that no call can have: with ranks as threads.
#include <gtest/gtest.h>

#include <functional>

#include <trireme/collectives/group.h>

#include "tests/collectives/reference.h"
#include "tests/collectives/thread_ranks.h"

namespace trireme {
namespace {

using test::patient;
using test::run_ranks;

constexpr ReduceOp kSum = ReduceOp::sum;

void expect_mismatch(const std::function<Status(Communicator&)>& call, const std::string& part) {
  run_ranks(3, patient(), [&](Communicator& c) {
    Status status = call(c);
    if (status.is_ok()) status = c.barrier();  // Two others disagreed when this rank was through.
    EXPECT_EQ(status.code(), StatusCode::mismatch) << status.to_string();
    EXPECT_NE(status.message().find(part), std::string::npos) << status.to_string();
  });
}

TEST(Disagreement, CountsNamesAndKinds) {
  const auto buffers = [](Communicator&) {
    thread_local std::vector<float> in(300), out(300);
    return std::pair(in.data(), out.data());
  };
  expect_mismatch(
      [&](Communicator& c) {
        const auto [in, out] = buffers(c);
        std::vector<std::size_t> counts = {5, 10, 15};
        if (c.rank() == 2) std::swap(counts[0], counts[1]);
        return c.all_gather_v(in, out, counts, DataType::f32);
      },
      "all_gather_v(counts #");
  expect_mismatch(
      [&](Communicator& c) {
        const auto [in, out] = buffers(c);
        std::vector<std::size_t> sends = {4, 4, 4};
        std::vector<std::size_t> receives = {4, 4, 4};
        if (c.rank() == 1) receives[0] = 5;
        return c.all_to_all_v(in, sends, out, receives, DataType::f32);
      },
      "5 elements between these two");
  expect_mismatch(
      [&](Communicator& c) {
        const auto [in, out] = buffers(c);
        CustomReduction custom{c.rank() == 0 ? "this" : "that", true,
                               [](void*, const void*, const void*, std::size_t) {}};
        return c.all_reduce(in, out, 10, DataType::f32, Reduction::custom(custom));
      },
      "custom #");
  expect_mismatch(
      [&](Communicator& c) {
        const auto [in, out] = buffers(c);
        return c.rank() == 0 ? c.all_reduce(in, out, 10, DataType::f32, Reduction::scaled_sum(2))
                             : c.all_reduce(in, out, 10, DataType::f32, kSum);
      },
      "scaled sum");
}

TEST(Disagreement, BadCountsAreRefused) {
  run_ranks(2, patient(), [](Communicator& c) {
    float in[8] = {}, out[8] = {};
    const std::vector<std::size_t> few = {1}, huge = {std::size_t{1} << 62, std::size_t{1} << 62}, good = {1, 2};
    const auto other = c.rank() == 0 ? std::vector<std::size_t>{3, 0} : std::vector<std::size_t>{0, 3};
    EXPECT_EQ(c.all_gather_v(in, out, few, DataType::f32).code(), StatusCode::invalid_argument);
    EXPECT_EQ(c.all_gather_v(in, out, huge, DataType::f32).code(), StatusCode::invalid_argument);
    EXPECT_EQ(c.all_to_all_v(in, good, out, other, DataType::f32).code(), StatusCode::invalid_argument);
    EXPECT_EQ(c.all_to_all(in, in, 2, DataType::f32).code(), StatusCode::invalid_argument);  // No form in place.
    EXPECT_EQ(c.gather(in, out, 1, DataType::f32, 2).code(), StatusCode::invalid_argument);
    EXPECT_EQ(c.all_reduce(in, out, 1, DataType::f32, Reduction::custom({"none", true, {}})).code(),
              StatusCode::invalid_argument);
    EXPECT_TRUE(c.barrier().is_ok());
  });
}

}  // namespace
}  // namespace trireme
