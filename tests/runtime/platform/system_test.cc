#include <gtest/gtest.h>

#include <sched.h>

#include <thread>
#include <vector>

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

TEST(System, BindingTakesTheProcessorsRound) {
  const std::vector<int> all = usable_cpus();
  ASSERT_EQ(all.size(), static_cast<std::size_t>(usable_cpu_count()));
  for (const std::size_t ordinal : {std::size_t{0}, all.size() - 1, all.size(), 2 * all.size() + 1}) {
    std::thread([&] {
      const Status bound = bind_to_cpu(static_cast<int>(ordinal));
      ASSERT_TRUE(bound.is_ok()) << bound.to_string();
      EXPECT_EQ(usable_cpus(), std::vector<int>{all[ordinal % all.size()]});
      EXPECT_EQ(::sched_getcpu(), all[ordinal % all.size()]);
    }).join();
  }
  EXPECT_EQ(usable_cpus(), all);  // Other threads stay as they are.
}

TEST(System, AvailableMemoryIsPlausible) {
  EXPECT_GT(available_memory_bytes(), 1U << 20);
  EXPECT_GT(available_memory_bytes(4096), 4096U);
  EXPECT_LT(available_memory_bytes(), std::uint64_t{1} << 50);
}

}  // namespace
}  // namespace trireme
