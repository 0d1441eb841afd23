// Time: the one seam through which the runtime reads clocks, and deadlines built on it.
//
// State machines take time as an argument; drivers read it here. Tests replace the
// system clock by a ManualClock where time itself is under test.
// Thread safety: all functions may be called from any thread.
#pragma once

#include <cstdint>

namespace trireme {

class Clock {
 public:
  virtual ~Clock() = default;
  // Monotonic nanoseconds since an arbitrary start; never goes back.
  virtual std::uint64_t now_ns() = 0;
  // Wall-clock milliseconds since 1970 (UTC): for logs and records, never for deadlines.
  virtual std::uint64_t wall_ms() = 0;
  virtual void sleep_ns(std::uint64_t duration_ns) = 0;
};

Clock& system_clock();

// A clock that moves only when told to. sleep_ns moves it.
class ManualClock final : public Clock {
 public:
  std::uint64_t now_ns() override { return now_ns_; }
  std::uint64_t wall_ms() override { return now_ns_ / 1'000'000; }
  void sleep_ns(std::uint64_t duration_ns) override { now_ns_ += duration_ns; }
  void advance_ms(std::uint64_t duration_ms) { now_ns_ += duration_ms * 1'000'000; }

 private:
  std::uint64_t now_ns_ = 1'000'000'000;
};

// A point in monotonic time by which something must have happened. Every wait in the
// runtime takes one; passing it on (rather than a duration) keeps nested waits honest.
class Deadline {
 public:
  static Deadline after_ms(std::uint64_t duration_ms);
  static Deadline at_ns(std::uint64_t monotonic_ns) { return Deadline(monotonic_ns); }
  // For waits that something else ends (abort, shutdown).
  static Deadline never() { return Deadline(UINT64_MAX); }

  bool expired() const { return at_ns_ != UINT64_MAX && system_clock().now_ns() >= at_ns_; }
  bool is_never() const { return at_ns_ == UINT64_MAX; }
  std::uint64_t at_ns() const { return at_ns_; }
  // 0 when expired; for poll(2)-like calls, rounded up and at most INT_MAX; -1 for never.
  int remaining_ms() const;
  Deadline earlier(Deadline other) const { return at_ns_ < other.at_ns_ ? *this : other; }

 private:
  explicit Deadline(std::uint64_t at_ns) : at_ns_(at_ns) {}
  std::uint64_t at_ns_;
};

// The processor's time-stamp counter: a few nanoseconds to read, for stamps on hot
// paths. Ticks are converted by tsc_to_ns, which is calibrated once against now_ns.
std::uint64_t tsc_now();
std::uint64_t tsc_to_ns(std::uint64_t ticks);

}  // namespace trireme
