#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/platform/api/process.h"
#include "runtime/platform/system_call.h"

namespace trireme {

std::string ExitState::to_string() const {
  if (!signaled) return "exit code " + std::to_string(code);
  return "signal " + std::to_string(signal) + " (" + signal_name(signal) + (core_dumped ? ", core dumped)" : ")");
}

Result<ChildProcess::Poll> ChildProcess::poll() {
  if (ended_) return Poll{true, exit_};
  siginfo_t info{};
  const int result = retried(
      "process.wait", [&] { return ::waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED | WNOHANG); });
  if (result != 0) return errno_status(errno, "wait for process " + std::to_string(pid_));
  if (info.si_pid == 0) return Poll{};
  ended_ = true;
  exit_.signaled = info.si_code != CLD_EXITED;
  exit_.core_dumped = info.si_code == CLD_DUMPED;
  (exit_.signaled ? exit_.signal : exit_.code) = info.si_status;
  return Poll{true, exit_};
}

Result<ExitState> ChildProcess::wait(Deadline deadline) {
  while (true) {
    TRIREME_ASSIGN_OR_RETURN(const Poll now, poll());
    if (now.ended) return now.exit;
    if (deadline.expired()) return deadline_exceeded("process " + std::to_string(pid_) + " has not ended in time");
    pollfd entry{pidfd_.get(), POLLIN, 0};
    if (::poll(&entry, 1, deadline.remaining_ms()) < 0 && errno != EINTR) {
      return errno_status(errno, "wait for process " + std::to_string(pid_));
    }
  }
}

Status ChildProcess::send_signal(int signal) {
  const std::string what = "send " + signal_name(signal) + " to process " + std::to_string(pid_);
  if (ended_) return not_found(what + ": it has ended (" + exit_.to_string() + ")");
  const long sent =
      retried("process.signal", [&] { return ::syscall(SYS_pidfd_send_signal, pidfd_.get(), signal, nullptr, 0); });
  return sent == 0 ? Status::ok() : errno_status(errno, what);
}

Result<UniqueFd> open_pidfd(std::int64_t pid) {
  const long fd = retried("process.pidfd", [&] { return ::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0); });
  if (fd < 0) return errno_status(errno, "open process " + std::to_string(pid));
  return UniqueFd(static_cast<int>(fd));
}

Status become_subreaper() {
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0) return Status::ok();
  return errno_status(errno, "become the reaper of orphaned descendants");
}

}  // namespace trireme
