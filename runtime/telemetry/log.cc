// One write(2) a line: the kernel keeps lines of several processes apart as long as
// they go to one pipe or file opened for appending.
#include <trireme/telemetry/log.h>

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <memory>
#include <mutex>

#include <trireme/platform/clock.h>
#include <trireme/platform/environment.h>

#include "runtime/platform/api/process.h"
#include "runtime/telemetry/log_filter.h"

namespace trireme {
namespace {

struct LogState {
  std::atomic<LogLevel> lowest{LogLevel::warn};
  std::mutex mutex;  // Guards what follows.
  LogFilter filter;
  std::string identity;
};

void write_to_stderr(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // Nowhere left to complain.
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

// "2026-11-30T12:00:00.123Z"
std::string time_stamp(std::uint64_t wall_ms) {
  const auto seconds = static_cast<std::time_t>(wall_ms / 1000);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char date[32];
  std::strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &parts);
  char text[48];
  std::snprintf(text, sizeof(text), "%s.%03dZ", date, static_cast<int>(wall_ms % 1000));
  return text;
}

std::string format_line(LogLevel level, std::string_view identity, std::string_view topic, std::string_view message) {
  static constexpr char kLetters[] = "TDIWE-";
  std::string line = time_stamp(system_clock().wall_ms());
  line += ' ';
  line += kLetters[static_cast<int>(level)];
  line += ' ';
  line += identity;
  line += ' ';
  line += topic;
  line += ' ';
  for (const char c : message) {
    if (c == '\n') {
      line += "\\n";
    } else {
      line += c;
    }
  }
  line += '\n';
  return line;
}

void install(LogState& state, LogFilter filter) {
  state.lowest.store(filter.lowest(), std::memory_order_relaxed);
  state.filter = std::move(filter);
}

// Never destroyed: destructors of other statics may still log.
LogState& state() {
  static LogState& instance = []() -> LogState& {
    auto* made = new LogState;  // NOLINT: reachable until the end.
    made->identity = host_name() + ":-";
    const Result<LogFilter> filter = LogFilter::parse(environment("TRIREME_LOG").value_or("warn"));
    if (filter.is_ok()) {
      install(*made, *filter);
    } else {
      write_to_stderr(
          format_line(LogLevel::error, made->identity, "log", "TRIREME_LOG is ignored: " + filter.status().message()));
    }
    return *made;
  }();
  return instance;
}

}  // namespace

bool log_enabled(LogLevel level, std::string_view topic) {
  LogState& log = state();
  if (level == LogLevel::off || level < log.lowest.load(std::memory_order_relaxed)) return false;
  const std::lock_guard lock(log.mutex);
  return level >= log.filter.level_of(topic);
}

void log_line(LogLevel level, std::string_view topic, std::string_view message) {
  LogState& log = state();
  const std::lock_guard lock(log.mutex);
  if (level == LogLevel::off || level < log.filter.level_of(topic)) return;
  write_to_stderr(format_line(level, log.identity, topic, message));
}

void set_log_identity(std::string_view identity) {
  LogState& log = state();
  const std::lock_guard lock(log.mutex);
  log.identity = identity;
}

void set_log_filter(std::string_view filter) {
  LogState& log = state();
  Result<LogFilter> parsed = LogFilter::parse(filter);
  if (!parsed.is_ok()) {
    log_line(LogLevel::error, "log", parsed.status().message() + "; the filter stays as it was");
    return;
  }
  const std::lock_guard lock(log.mutex);
  install(log, std::move(*parsed));
}

}  // namespace trireme
