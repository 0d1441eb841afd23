#include <gtest/gtest.h>

#include <random>

#include "checkpoint/plan.h"

namespace trireme {
namespace {

TEST(PlanWrite, ReplicasShareTheWorkEvenly) {
  for (int replicas = 1; replicas <= 9; ++replicas) {
    for (const std::int64_t elements : {0, 1, 2, 7, 8, 9, 64, 1001}) {
      std::vector<Range> parts;
      std::int64_t least = INT64_MAX;
      std::int64_t most = 0;
      for (int replica = 0; replica < replicas; ++replica) {
        parts.push_back(plan_write(ShardSpec::whole({elements}, replica, replicas)));
        least = std::min(least, parts.back().size());
        most = std::max(most, parts.back().size());
      }
      EXPECT_TRUE(check_coverage(parts, elements).is_ok());
      EXPECT_LE(most - least, 1);
    }
  }
  EXPECT_EQ(plan_write({{100}, 40, 50, 1, 2}), (Range{45, 50}));
}

TEST(CheckCoverage, NamesTheFirstFault) {
  EXPECT_TRUE(check_coverage({}, 0).is_ok());
  EXPECT_TRUE(check_coverage({{5, 9}, {0, 5}, {5, 5}}, 9).is_ok());
  EXPECT_NE(check_coverage({}, 3).message().find("[0, 3)"), std::string::npos);
  EXPECT_NE(check_coverage({{0, 2}, {3, 9}}, 9).message().find("[2, 3)"), std::string::npos);
  EXPECT_NE(check_coverage({{0, 5}, {4, 9}}, 9).message().find("[4, 5) are saved twice"), std::string::npos);
  EXPECT_NE(check_coverage({{0, 9}, {0, 9}}, 9).message().find("twice"), std::string::npos);
  EXPECT_NE(check_coverage({{0, 8}}, 9).message().find("[8, 9)"), std::string::npos);
  EXPECT_FALSE(check_coverage({{0, 10}}, 9).is_ok());
}

TEST(PlanRead, AnyRangeOfAnyPartition) {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    const std::int64_t elements = 1 + static_cast<std::int64_t>(random() % 200);
    std::vector<Range> saved;
    for (std::int64_t begin = 0; begin < elements;) {
      const std::int64_t end = std::min<std::int64_t>(elements, begin + static_cast<std::int64_t>(random() % 30));
      saved.push_back({begin, end});  // Empty ones too.
      begin = end;
    }
    const auto a = static_cast<std::int64_t>(random() % (static_cast<std::size_t>(elements) + 1));
    const auto b = static_cast<std::int64_t>(random() % (static_cast<std::size_t>(elements) + 1));
    const Range wanted{std::min(a, b), std::max(a, b)};
    const auto segments = plan_read(saved, wanted);
    ASSERT_TRUE(segments.is_ok()) << segments.status().to_string();
    std::int64_t next = wanted.begin;
    for (const ReadSegment& segment : *segments) {
      const Range& part = saved[segment.part];
      ASSERT_GT(segment.elements, 0);
      ASSERT_EQ(part.begin + segment.offset_in_part, next);
      ASSERT_EQ(wanted.begin + segment.offset_in_wanted, next);
      ASSERT_LE(segment.offset_in_part + segment.elements, part.size());
      next += segment.elements;
    }
    ASSERT_EQ(next, wanted.end);
  }
}

TEST(PlanRead, GapsAreDataLoss) {
  EXPECT_EQ(plan_read({{0, 4}, {6, 9}}, {2, 8}).status().code(), StatusCode::data_loss);
  EXPECT_EQ(plan_read({{0, 4}}, {2, 8}).status().code(), StatusCode::data_loss);
  EXPECT_EQ(plan_read({}, {0, 1}).status().code(), StatusCode::data_loss);
  EXPECT_EQ(plan_read({{5, 9}}, {2, 8}).status().code(), StatusCode::data_loss);
  EXPECT_TRUE(plan_read({{0, 4}, {6, 9}}, {7, 9}).is_ok());
  EXPECT_TRUE(plan_read({}, {3, 3})->empty());
}

}  // namespace
}  // namespace trireme
