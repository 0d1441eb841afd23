#include <gtest/gtest.h>

#include <map>
#include <random>

#include "runtime/memory/block_allocator.h"

namespace trireme {
namespace {

TEST(BlockAllocator, BlocksMergeWithBothNeighbours) {
  BlockAllocator blocks(1024);
  const auto a = blocks.allocate(100).value();
  const auto b = blocks.allocate(64).value();
  const auto c = blocks.allocate(1).value();
  EXPECT_EQ(blocks.free_bytes(), 1024U - 128 - 64 - 64);
  blocks.deallocate(a);
  blocks.deallocate(c);
  EXPECT_EQ(blocks.largest_free_bytes(), 1024U - 192);
  blocks.deallocate(b);
  EXPECT_EQ(blocks.largest_free_bytes(), 1024U);
  EXPECT_EQ(blocks.live_blocks(), 0U);
}

TEST(BlockAllocator, RefusesWhatDoesNotFit) {
  BlockAllocator blocks(200);  // 192 usable.
  EXPECT_FALSE(blocks.allocate(193).has_value());
  EXPECT_FALSE(blocks.allocate(SIZE_MAX).has_value());
  EXPECT_EQ(blocks.allocate(192), 0U);
  EXPECT_FALSE(blocks.allocate(0).has_value());
  EXPECT_FALSE(BlockAllocator(10).allocate(1).has_value());
}

TEST(BlockAllocator, RandomUseNeverOverlapsNorLeaks) {
  std::mt19937 random(20261130);
  constexpr std::size_t kBytes = 64 * 1024;
  for (int round = 0; round < 20; ++round) {
    BlockAllocator blocks(kBytes);
    std::map<std::size_t, std::size_t> live;  // The reference: offset, bytes rounded.
    for (int step = 0; step < 2000; ++step) {
      if (live.empty() || random() % 5 < 3) {
        const std::size_t bytes = random() % 3000;
        const std::size_t rounded = bytes == 0 ? 64 : (bytes + 63) / 64 * 64;
        const auto offset = blocks.allocate(bytes);
        if (!offset) {
          ASSERT_LT(blocks.largest_free_bytes(), rounded);
          continue;
        }
        ASSERT_EQ(*offset % 64, 0U);
        ASSERT_LE(*offset + rounded, kBytes);
        const auto next = live.lower_bound(*offset);
        ASSERT_TRUE(next == live.end() || next->first >= *offset + rounded);
        ASSERT_TRUE(next == live.begin() || std::prev(next)->first + std::prev(next)->second <= *offset);
        live[*offset] = rounded;
      } else {
        auto victim = live.begin();
        std::advance(victim, random() % live.size());
        blocks.deallocate(victim->first);
        live.erase(victim);
      }
      std::size_t used = 0;
      for (const auto& [offset, bytes] : live) used += bytes;
      ASSERT_EQ(blocks.free_bytes(), kBytes - used);
    }
    for (const auto& [offset, bytes] : live) blocks.deallocate(offset);
    EXPECT_EQ(blocks.largest_free_bytes(), kBytes) << "everything merges again";
  }
}

TEST(BlockAllocatorDeathTest, FreeingTwiceStopsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  BlockAllocator blocks(1024);
  const auto offset = blocks.allocate(10).value();
  blocks.deallocate(offset);
  EXPECT_DEATH(blocks.deallocate(offset), "freed twice");
}

}  // namespace
}  // namespace trireme
