#include <gtest/gtest.h>

#include <sched.h>

#include <thread>

#include "runtime/platform/api/system.h"

namespace trireme {
namespace {

TEST(System, CpuCountFollowsTheAffinityMask) {
  EXPECT_GE(usable_cpu_count(), 1);
  std::thread([] {
    cpu_set_t mask;
    ASSERT_EQ(::sched_getaffinity(0, sizeof(mask), &mask), 0);
    EXPECT_EQ(usable_cpu_count(), CPU_COUNT(&mask));
    int first = 0;
    while (!CPU_ISSET(first, &mask)) ++first;
    CPU_ZERO(&mask);
    CPU_SET(first, &mask);
    ASSERT_EQ(::sched_setaffinity(0, sizeof(mask), &mask), 0);
    EXPECT_EQ(usable_cpu_count(), 1);
  }).join();
}

TEST(System, AvailableMemoryIsPlausible) {
  EXPECT_GT(available_memory_bytes(), 1U << 20);
  EXPECT_LT(available_memory_bytes(), std::uint64_t{1} << 50);
}

}  // namespace
}  // namespace trireme
