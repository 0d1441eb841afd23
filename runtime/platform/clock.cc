#include <trireme/platform/clock.h>

#include <cerrno>
#include <climits>
#include <ctime>

#include "runtime/platform/api/system.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace trireme {
namespace {

std::uint64_t read_clock_ns(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

class SystemClock final : public Clock {
 public:
  std::uint64_t now_ns() override { return read_clock_ns(CLOCK_MONOTONIC); }
  std::uint64_t wall_ms() override { return read_clock_ns(CLOCK_REALTIME) / 1'000'000; }
  void sleep_ns(std::uint64_t duration_ns) override {
    const std::uint64_t end_ns = now_ns() + duration_ns;
    timespec until{};
    until.tv_sec = static_cast<time_t>(end_ns / 1'000'000'000);
    until.tv_nsec = static_cast<long>(end_ns % 1'000'000'000);
    while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
    }
  }
};

// Nanoseconds per tick as a 32.32 fixed-point number, measured over two milliseconds.
std::uint64_t calibrate_tsc() {
  const std::uint64_t start_ns = read_clock_ns(CLOCK_MONOTONIC);
  const std::uint64_t start_ticks = tsc_now();
  std::uint64_t now_ns = start_ns;
  while (now_ns - start_ns < 2'000'000) now_ns = read_clock_ns(CLOCK_MONOTONIC);
  const std::uint64_t ticks = tsc_now() - start_ticks;
  return ticks == 0 ? std::uint64_t{1} << 32 : ((now_ns - start_ns) << 32) / ticks;
}

}  // namespace

Clock& system_clock() {
  static SystemClock& clock = *new SystemClock;  // Never destroyed: threads and what ends at exit() use it.
  return clock;
}

Deadline Deadline::after_ms(std::uint64_t duration_ms) {
  const std::uint64_t now_ns = system_clock().now_ns();
  if (duration_ms > (UINT64_MAX - now_ns) / 1'000'000) return never();
  return Deadline(now_ns + duration_ms * 1'000'000);
}

int Deadline::remaining_ms() const {
  if (is_never()) return -1;
  const std::uint64_t now_ns = system_clock().now_ns();
  if (now_ns >= at_ns_) return 0;
  const std::uint64_t left_ms = (at_ns_ - now_ns + 999'999) / 1'000'000;
  return left_ms > INT_MAX ? INT_MAX : static_cast<int>(left_ms);
}

std::int64_t wall_clock_ns() {
  return static_cast<std::int64_t>(read_clock_ns(CLOCK_REALTIME));
}

std::uint64_t tsc_now() {
#if defined(__x86_64__)
  return __rdtsc();
#elif defined(__aarch64__)
  std::uint64_t ticks;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return read_clock_ns(CLOCK_MONOTONIC);
#endif
}

std::uint64_t tsc_to_ns(std::uint64_t ticks) {
  static const std::uint64_t ns_per_tick = calibrate_tsc();
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(ticks) * ns_per_tick) >> 32);
}

}  // namespace trireme
