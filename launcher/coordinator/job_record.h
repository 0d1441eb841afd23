// What happened to a job: the account that summaries, records for machines and the exit
// code are made from. Thread safety: values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/platform/api/process.h"
#include "runtime/telemetry/api/verdict.h"

namespace trireme {

// The exit code by which a program says "I stopped when asked, start me again later".
inline constexpr int kYieldExitCode = 75;
inline constexpr int kUsageExitCode = 2;
inline constexpr int kTimeoutExitCode = 124;

struct RankRecord {
  enum class State { not_started, running, ended, start_failed };
  State state = State::not_started;
  std::int64_t pid = 0;
  ExitState exit;                       // When ended.
  bool ended_by_launcher = false;       // By a signal we had sent.
  std::uint64_t ended_at_ms = 0;        // Since the job began.
  std::string error;                    // When start_failed.
  std::vector<std::string> last_lines;  // When ended.

  bool over() const { return state == State::ended || state == State::start_failed; }
  // Ended in a way that counts against the job; a yield doesn't.
  bool failed() const;
  // "exit code 3", "signal 9 (SIGKILL)", "could not be started: ...", "running".
  std::string describe() const;
};

struct AttemptRecord {
  int attempt = 0;
  std::int64_t epoch = 0;
  std::uint64_t started_at_ms = 0;
  std::uint64_t ended_at_ms = 0;
  int first_failure = -1;  // A rank, or -1.
  std::vector<RankRecord> ranks;
  JobVerdict verdict;  // Of the ranks as they were at the first failure, or when told to stop.
};

enum class Outcome { running, succeeded, failed, yielded, stopped, timed_out };
std::string_view to_string(Outcome outcome);

struct JobRecord {
  Outcome outcome = Outcome::running;
  int exit_code = 0;
  int stop_signal = 0;  // When stopped.
  int restarts = 0;
  std::string lost;         // Why the host's shim was lost, if it was.
  bool lost_files = false;  // Of the output that was asked for something could not be written.
  std::vector<AttemptRecord> attempts;
};

}  // namespace trireme
