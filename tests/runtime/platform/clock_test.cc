#include <gtest/gtest.h>

#include <trireme/platform/clock.h>

namespace trireme {
namespace {

TEST(Clock, SystemClockMovesForward) {
  const std::uint64_t before = system_clock().now_ns();
  system_clock().sleep_ns(1'000'000);
  EXPECT_GE(system_clock().now_ns(), before + 1'000'000);
  EXPECT_GT(system_clock().wall_ms(), 1'577'836'800'000U) << "wall time is after 2020";
}

TEST(Clock, ManualClockMovesOnlyWhenTold) {
  ManualClock clock;
  const std::uint64_t start = clock.now_ns();
  EXPECT_EQ(clock.now_ns(), start);
  clock.advance_ms(5);
  clock.sleep_ns(7);
  EXPECT_EQ(clock.now_ns(), start + 5'000'007);
}

TEST(Deadline, RemainingTimeAndExpiry) {
  EXPECT_TRUE(Deadline::after_ms(0).expired());
  EXPECT_EQ(Deadline::after_ms(0).remaining_ms(), 0);
  const Deadline later = Deadline::after_ms(3'600'000);
  EXPECT_FALSE(later.expired());
  EXPECT_GT(later.remaining_ms(), 3'000'000);
  EXPECT_LE(later.remaining_ms(), 3'600'000);
  EXPECT_EQ(later.earlier(Deadline::at_ns(1)).at_ns(), 1U);
  EXPECT_EQ(Deadline::at_ns(1).earlier(later).at_ns(), 1U);
}

TEST(Deadline, NeverAndOverflow) {
  EXPECT_EQ(Deadline::never().remaining_ms(), -1);
  EXPECT_FALSE(Deadline::never().expired());
  EXPECT_TRUE(Deadline::after_ms(UINT64_MAX).is_never());
  EXPECT_EQ(Deadline::after_ms(1ULL << 42).remaining_ms(), 2147483647);
}

TEST(Tsc, TicksConvertToTheMonotonicClock) {
  tsc_to_ns(0);  // Calibrates.
  const std::uint64_t start_ns = system_clock().now_ns();
  const std::uint64_t start = tsc_now();
  system_clock().sleep_ns(20'000'000);
  const std::uint64_t outer_ticks = tsc_to_ns(tsc_now() - start);
  const std::uint64_t outer_ns = system_clock().now_ns() - start_ns;
  EXPECT_GT(outer_ticks, 19'000'000U) << "at least the sleep, within the calibration's error";
  EXPECT_LT(outer_ticks, outer_ns + outer_ns / 20) << "not more than the clock that encloses it, plus 5 %";
}

}  // namespace
}  // namespace trireme
