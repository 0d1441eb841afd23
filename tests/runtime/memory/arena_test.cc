#include <gtest/gtest.h>

#include <cstring>

#include <trireme/memory/arena.h>

#include "runtime/platform/api/fault.h"

namespace trireme {
namespace {

TEST(Arena, HandsOutAlignedMemoryAndTakesItBack) {
  Arena arena = Arena::create("test", 1000).value();
  EXPECT_EQ(arena.capacity_bytes(), 1000U);
  void* first = arena.allocate(1).value();
  const std::size_t mark = arena.mark();
  float* second = arena.allocate_array<float>(10).value();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 64, 0U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(second) % 64, 0U);
  std::memset(second, 1, 40);
  EXPECT_EQ(arena.used_bytes(), 104U);
  arena.release(mark);
  EXPECT_EQ(arena.used_bytes(), mark);
  EXPECT_EQ(arena.allocate_array<float>(10).value(), second);
  EXPECT_EQ(arena.high_water_bytes(), 104U);
}

TEST(Arena, FullArenasSayWhatTheyHave) {
  Arena arena = Arena::create("activations", 256).value();
  ASSERT_TRUE(arena.allocate(200).is_ok());
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{100}, SIZE_MAX}) {
    const auto more = arena.allocate(bytes);
    if (more.is_ok()) continue;  // One byte at the last 64-byte boundary would be fine.
    EXPECT_EQ(more.status().code(), StatusCode::resource_exhausted);
    EXPECT_NE(more.status().message().find("activations"), std::string::npos);
    EXPECT_NE(more.status().message().find(std::to_string(bytes)), std::string::npos);
  }
  EXPECT_FALSE(arena.allocate(100).is_ok());
  arena.release(0);
  EXPECT_TRUE(arena.allocate(256).is_ok());
  EXPECT_TRUE(arena.allocate(0).is_ok());
  EXPECT_FALSE(arena.allocate(1).is_ok());
}

TEST(Arena, MoreThanTheMachineHasIsRefused) {
  for (const std::size_t bytes : {std::size_t{1} << 50, SIZE_MAX}) {
    const auto arena = Arena::create("huge", bytes);
    EXPECT_EQ(arena.status().code(), StatusCode::resource_exhausted);
    EXPECT_NE(arena.status().message().find("available"), std::string::npos);
  }
  const ScopedFaultInjector injector([](std::string_view site) { return site == "memory.map" ? 12 : 0; });
  EXPECT_EQ(Arena::create("small", 10).status().code(), StatusCode::resource_exhausted);
}

TEST(Arena, MovesKeepTheMemory) {
  Arena arena = Arena::create("a", 4096).value();
  char* text = arena.allocate_array<char>(6).value();
  std::strcpy(text, "hello");
  Arena other = std::move(arena);
  EXPECT_EQ(other.used_bytes(), 6U);
  other = Arena::create("b", 64).value();
  EXPECT_EQ(other.name(), "b");
  EXPECT_EQ(other.used_bytes(), 0U);
}

TEST(Arena, MayLieOverMemoryOfOthers) {
  alignas(64) char memory[256];
  Arena arena = Arena::over("stack", memory + 1, 255);
  void* first = arena.allocate(64).value();
  EXPECT_EQ(first, memory + 64) << "aligned by address, not by offset";
  EXPECT_TRUE(arena.allocate(128).is_ok());
  EXPECT_FALSE(arena.allocate(1).is_ok());
}

TEST(Arena, AnEmptyArenaIsAllowed) {
  Arena arena = Arena::create("empty", 0).value();
  EXPECT_TRUE(arena.allocate(0).is_ok());
  EXPECT_FALSE(arena.allocate(1).is_ok());
}

TEST(ArenaDeathTest, ReleasingUpwardsStopsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Arena arena = Arena::create("a", 64).value();
  EXPECT_DEATH(arena.release(1), "above what is used");
}

}  // namespace
}  // namespace trireme
