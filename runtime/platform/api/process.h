// Processes: identity, spawning, waiting by pidfd.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <trireme/base/status.h>
#include <trireme/platform/clock.h>

#include "runtime/platform/api/unique_fd.h"

namespace trireme {

// Identifies a process for ever: a pid alone may be reused.
struct ProcessIdentity {
  std::int64_t pid = 0;
  std::uint64_t start_time_ticks = 0;  // Field 22 of /proc/PID/stat.
  std::string boot_id;                 // /proc/sys/kernel/random/boot_id
  bool operator==(const ProcessIdentity&) const = default;
};
Result<ProcessIdentity> process_identity(std::int64_t pid);
std::int64_t current_pid();
std::string host_name();  // As the kernel says; never resolved.
std::string boot_id();

struct SpawnOptions {
  std::string program;                   // Searched in PATH when it has no slash.
  std::vector<std::string> arguments;    // Without argv[0].
  std::vector<std::string> environment;  // "NAME=value", the whole of it.
  std::string working_directory;         // "" keeps ours.
  int stdin_fd = -1;                     // -1: /dev/null
  int stdout_fd = -1;                    // -1: inherit
  int stderr_fd = -1;                    // -1: inherit
  bool new_session = false;              // setsid
  bool new_process_group = false;
  bool new_pid_namespace = false;  // Needs root; the child is its init.
  int parent_death_signal = 0;     // 0: none. Sent when the *thread* that spawned ends.
  std::vector<int> keep_fds;       // Stay open in the child under the same numbers.
};

struct ExitState {
  bool signaled = false;
  int code = 0;    // Exit code when !signaled.
  int signal = 0;  // When signaled.
  bool core_dumped = false;
  // 128 + signal when signaled, the code otherwise.
  int shell_code() const { return signaled ? 128 + signal : code; }
  // "exit code 3", "signal 9 (SIGKILL)".
  std::string to_string() const;
};

// A child and its exit. Dropping the object leaves the process running.
// Thread safety: spawn from any thread; one thread at a time for an object.
class ChildProcess {
 public:
  ChildProcess() = default;
  // Signal handlers and the signal mask are reset in the child. Errors of the child before exec (program not found, no
  // such folder) are returned here, as the Status of the failing call.
  static Result<ChildProcess> spawn(const SpawnOptions& options);

  std::int64_t pid() const { return pid_; }
  int pidfd() const { return pidfd_.get(); }  // Readable when the child ended.
  // At once; nullopt-like: is_ok() with .ended false when still running.
  struct Poll {
    bool ended = false;
    ExitState exit;
  };
  Result<Poll> poll();
  Result<ExitState> wait(Deadline deadline);
  Status send_signal(int signal);  // By pidfd: never hits a reused pid.

 private:
  std::int64_t pid_ = -1;
  UniqueFd pidfd_;
  bool ended_ = false;
  ExitState exit_;
};

// A pidfd for any process that may be gone: not_found when it is.
Result<UniqueFd> open_pidfd(std::int64_t pid);
// Orphaned descendants become our children.
Status become_subreaper();
std::string signal_name(int signal);  // "SIGKILL"
// The kernel's random bytes, fit for secrets; and as hexadecimal text, two digits a byte.
std::string random_bytes(std::size_t bytes);
std::string random_hex(std::size_t bytes);

}  // namespace trireme
