#include <trireme/base/partition.h>

#include <gtest/gtest.h>

#include <cstdint>

namespace trireme {
namespace {

// Contiguous, complete, balanced, larger parts first: everything the header promises.
void expect_partition(std::int64_t count, std::int64_t parts) {
  std::int64_t at = 0;
  std::int64_t previous = balanced_part(count, 0, parts).size();
  for (std::int64_t part = 0; part < parts; ++part) {
    const Range range = balanced_part(count, part, parts);
    ASSERT_EQ(range.begin, at) << count << " in " << parts;
    ASSERT_GE(range.size(), count / parts);
    ASSERT_LE(range.size(), previous);
    ASSERT_LE(previous - range.size(), 1);
    previous = range.size();
    at = range.end;
  }
  ASSERT_EQ(at, count);
}

TEST(BalancedPart, CoversEverySmallCountByEveryNumberOfParts) {
  for (std::int64_t count = 0; count <= 70; ++count) {
    for (std::int64_t parts = 1; parts <= 70; ++parts) expect_partition(count, parts);
  }
}

TEST(BalancedPart, DoesNotOverflowOnLargeCounts) {
  for (std::int64_t count : {INT64_MAX, INT64_MAX - 1, std::int64_t{1} << 62}) {
    for (std::int64_t parts : {1, 2, 3, 64, 1000}) expect_partition(count, parts);
  }
}

TEST(BalancedPart, MorePartsThanElementsLeavesTheLastOnesEmpty) {
  EXPECT_EQ(balanced_part(2, 1, 4), (Range{1, 2}));
  EXPECT_EQ(balanced_part(2, 2, 4), (Range{2, 2}));
  static_assert(balanced_part(10, 0, 3).end == 4);
}

}  // namespace
}  // namespace trireme
