#include "examples/gpt/progress.h"

#include <unistd.h>

#include <cstdio>

#include <fmt/core.h>

#include <trireme/base/units.h>
#include <trireme/platform/clock.h>

#include "runtime/platform/api/console.h"

namespace trireme::gpt {

namespace {
constexpr std::uint64_t kTerminalInterval_ns = 200'000'000;
constexpr std::uint64_t kPlainInterval_ns = 3'000'000'000;
}  // namespace

Progress::Progress(bool quiet, std::int64_t first_step, std::int64_t last_step)
    : quiet_(quiet),
      terminal_(isatty(STDOUT_FILENO) == 1),
      first_step_(first_step),
      last_step_(last_step),
      started_ns_(system_clock().now_ns()) {}

std::string Progress::time_left(std::int64_t step, std::uint64_t now_ns) const {
  const std::int64_t done = step - first_step_;
  if (done <= 0) return "?";
  const double per_step_ns = static_cast<double>(now_ns - started_ns_) / static_cast<double>(done);
  const double left_ms = per_step_ns * static_cast<double>(last_step_ - step) / 1e6;
  return format_duration_ms(static_cast<std::uint64_t>(left_ms));
}

void Progress::step(std::int64_t step, double loss, double tokens_per_second) {
  if (quiet_) return;
  const std::uint64_t now = system_clock().now_ns();
  const bool edge = step == last_step_ || step == first_step_ + 1;
  if (!edge && now - shown_ns_ < (terminal_ ? kTerminalInterval_ns : kPlainInterval_ns)) return;
  shown_ns_ = now;
  const std::string line = fmt::format("step {}/{}  loss {:.4f}  {:.0f} tokens/s  {} left", step, last_step_, loss,
                                       tokens_per_second, time_left(step, now));
  if (terminal_) {
    print_out(fmt::format("\r{:<76}", line));
  } else {
    print_out(fmt::format("{}\n", line));
  }
  std::fflush(stdout);
  line_open_ = terminal_;
}

void Progress::say(const std::string& line) {
  if (quiet_) return;
  finish();
  print_out(fmt::format("{}\n", line));
  std::fflush(stdout);
}

void Progress::finish() {
  if (line_open_) print_out("\n");
  line_open_ = false;
}

}  // namespace trireme::gpt
