// Spawning: clone(2) with CLONE_PIDFD, then execve in the child.
//
// The caller may have threads, so between clone and exec the child calls only
// async-signal-safe functions, and everything it needs (paths, argument arrays) is
// prepared before. A child that fails before exec writes {step, errno} to a pipe that
// exec closes: the parent reads either that, or the end of the file and knows that exec
// worked. All signals are blocked around clone, so no handler of ours runs in the child.
#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include <trireme/platform/environment.h>

#include "runtime/platform/api/process.h"
#include "runtime/platform/system_call.h"

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#endif

namespace trireme {
namespace {

enum Step : int { step_streams, step_session, step_death_signal, step_folder, step_descriptors, step_exec };

struct ChildError {
  int step;
  int error_number;
};

// All the child needs, as plain arrays.
struct ChildPlan {
  const char* program = nullptr;
  char* const* arguments = nullptr;
  char* const* environment = nullptr;
  const SpawnOptions* options = nullptr;
  const int* keep_fds = nullptr;
  std::size_t keep_count = 0;
  int null_fd = -1;
  int error_fd = -1;
  int descriptor_limit = 0;
  pid_t parent = 0;
};

// The child uses raw system calls where libc or a sanitizer wraps the function: wrappers
// may take locks that another thread held at the moment of the clone.
[[noreturn]] void fail_in_child(const ChildPlan& plan, Step step) {
  const ChildError error{step, errno};
  const long written = ::syscall(SYS_write, plan.error_fd, &error, sizeof(error));
  ::syscall(SYS_exit_group, written == sizeof(error) ? 127 : 126);
  __builtin_unreachable();
}

// Moves the three streams out of the way first: one's source may be another's number.
void place_streams(const ChildPlan& plan) {
  const int sources[3] = {plan.options->stdin_fd >= 0 ? plan.options->stdin_fd : plan.null_fd, plan.options->stdout_fd,
                          plan.options->stderr_fd};
  long copies[3] = {-1, -1, -1};
  for (int stream = 0; stream < 3; ++stream) {
    if (sources[stream] < 0) continue;
    copies[stream] = ::syscall(SYS_fcntl, sources[stream], F_DUPFD_CLOEXEC, 3);
    if (copies[stream] < 0) fail_in_child(plan, step_streams);
  }
  for (int stream = 0; stream < 3; ++stream) {
    if (copies[stream] >= 0 && ::syscall(SYS_dup3, copies[stream], stream, 0) < 0) fail_in_child(plan, step_streams);
  }
}

// Descriptors of libraries may lack close-on-exec: mark everything, then unmark ours.
void mark_descriptors(const ChildPlan& plan) {
  if (::syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC) != 0) {
    for (int fd = 3; fd < plan.descriptor_limit; ++fd) ::syscall(SYS_fcntl, fd, F_SETFD, FD_CLOEXEC);
  }
  for (std::size_t i = 0; i < plan.keep_count; ++i) {
    if (::syscall(SYS_fcntl, plan.keep_fds[i], F_SETFD, 0) != 0) fail_in_child(plan, step_descriptors);
  }
}

void reset_signals() {
  // The kernel's struct sigaction, all zero: SIG_DFL, no flags, empty mask.
  const unsigned long defaults[4] = {};
  constexpr std::size_t kSetBytes = 8;
  for (int signal = 1; signal < NSIG; ++signal) ::syscall(SYS_rt_sigaction, signal, defaults, nullptr, kSetBytes);
  const unsigned long none = 0;
  ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, nullptr, kSetBytes);
}

[[noreturn]] void run_child(const ChildPlan& plan) {
  const SpawnOptions& options = *plan.options;
  place_streams(plan);
  if (options.new_session && ::setsid() < 0) fail_in_child(plan, step_session);
  if (options.new_process_group && !options.new_session && ::setpgid(0, 0) != 0) fail_in_child(plan, step_session);
  if (options.parent_death_signal != 0) {
    if (::prctl(PR_SET_PDEATHSIG, options.parent_death_signal, 0, 0, 0) != 0) fail_in_child(plan, step_death_signal);
    // The parent may have died before the request. In a new PID namespace it shows as 0.
    if (::getppid() != plan.parent && !options.new_pid_namespace)
      ::syscall(SYS_exit_group, 128 + options.parent_death_signal);
  }
  if (!options.working_directory.empty() && ::chdir(options.working_directory.c_str()) != 0) {
    fail_in_child(plan, step_folder);
  }
  mark_descriptors(plan);
  reset_signals();
  ::execve(plan.program, plan.arguments, plan.environment);
  fail_in_child(plan, step_exec);
}

std::string absolute_path(const std::string& path) {
  if (path.empty() || path[0] == '/') return path;
  char* folder = ::getcwd(nullptr, 0);
  const std::string absolute = folder != nullptr ? std::string(folder) + "/" + path : path;
  ::free(folder);
  return absolute;
}

std::string search_path(const SpawnOptions& options) {
  for (const std::string& entry : options.environment) {
    if (entry.rfind("PATH=", 0) == 0) return entry.substr(5);
  }
  return environment("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
}

bool is_program(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

// A name with a slash is relative to our folder, not to the child's.
Result<std::string> find_program(const SpawnOptions& options) {
  if (options.program.empty()) return invalid_argument("no program was given to start");
  if (options.program.find('/') != std::string::npos) return absolute_path(options.program);
  const std::string path = search_path(options);
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    const std::string folder = end == begin ? "." : path.substr(begin, end - begin);
    const std::string candidate = absolute_path(folder + "/" + options.program);
    if (is_program(candidate)) return candidate;
    begin = end + 1;
  }
  return not_found("program '" + options.program + "' is in no folder of PATH (" + path +
                   "): check the name, or give its path (./" + options.program + " for this folder)");
}

std::vector<char*> pointers_to(const std::vector<std::string>& texts, const std::string* first = nullptr) {
  std::vector<char*> pointers;
  if (first != nullptr) pointers.push_back(const_cast<char*>(first->c_str()));
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

Status child_status(const ChildError& error, const SpawnOptions& options, const std::string& program) {
  const std::string start = "start '" + options.program + "': ";
  switch (error.step) {
    case step_streams:
      return errno_status(error.error_number, start + "place its standard streams");
    case step_session:
      return errno_status(error.error_number, start + "give it its own session or process group");
    case step_death_signal:
      return errno_status(error.error_number, start + "ask for a signal when its parent dies");
    case step_folder:
      return errno_status(error.error_number, start + "enter its folder '" + options.working_directory + "'");
    case step_descriptors:
      return errno_status(error.error_number, start + "keep the descriptors it is to inherit");
    default:
      return errno_status(error.error_number, start + "execute '" + program + "'");
  }
}

// The rest of clone(2) is fork(2). SYS_clone rather than clone3: containers' filters
// often refuse the latter.
long clone_process(bool new_pid_namespace, int* pidfd) {
  const unsigned long flags = CLONE_PIDFD | SIGCHLD | (new_pid_namespace ? CLONE_NEWPID : 0U);
  return ::syscall(SYS_clone, flags, nullptr, pidfd, nullptr, nullptr);
}

Result<std::pair<pid_t, UniqueFd>> clone_and_exec(ChildPlan& plan) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  plan.parent = ::getpid();
  int pidfd = -1;
  const long pid = retried("process.spawn", [&] { return clone_process(plan.options->new_pid_namespace, &pidfd); });
  if (pid == 0) run_child(plan);
  const int error_number = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) {
    const bool wants_root = plan.options->new_pid_namespace && error_number == EPERM;
    return errno_status(error_number, "start '" + plan.options->program + "'" +
                                          (wants_root ? " in a new PID namespace, which needs root" : ""));
  }
  return std::pair(static_cast<pid_t>(pid), UniqueFd(pidfd));
}

}  // namespace

Result<ChildProcess> ChildProcess::spawn(const SpawnOptions& options) {
  TRIREME_ASSIGN_OR_RETURN(const std::string program, find_program(options));
  const std::vector<char*> arguments = pointers_to(options.arguments, &options.program);
  const std::vector<char*> environment = pointers_to(options.environment);
  const UniqueFd null_fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  int pipe_fds[2];
  if (!null_fd.valid() || ::pipe2(pipe_fds, O_CLOEXEC) != 0) {
    return errno_status(errno, "start '" + options.program + "': open descriptors");
  }
  const UniqueFd error_reader(pipe_fds[0]);
  // Beyond the standard streams, which the child overwrites.
  UniqueFd error_writer(pipe_fds[1] >= 3 ? pipe_fds[1] : ::fcntl(pipe_fds[1], F_DUPFD_CLOEXEC, 3));
  if (pipe_fds[1] < 3) ::close(pipe_fds[1]);
  rlimit descriptors{};
  ::getrlimit(RLIMIT_NOFILE, &descriptors);

  ChildPlan plan;
  plan.program = program.c_str();
  plan.arguments = arguments.data();
  plan.environment = environment.data();
  plan.options = &options;
  plan.keep_fds = options.keep_fds.data();
  plan.keep_count = options.keep_fds.size();
  plan.null_fd = null_fd.get();
  plan.error_fd = error_writer.get();
  plan.descriptor_limit = static_cast<int>(std::min<rlim_t>(descriptors.rlim_cur, 65536));
  TRIREME_ASSIGN_OR_RETURN(auto child, clone_and_exec(plan));
  error_writer.reset();

  ChildProcess process;
  process.pid_ = child.first;
  process.pidfd_ = std::move(child.second);
  ChildError error{};
  ssize_t got = 0;
  do {
    got = ::read(error_reader.get(), &error, sizeof(error));
  } while (got < 0 && errno == EINTR);
  if (got != sizeof(error)) return process;
  TRIREME_RETURN_IF_ERROR(process.wait(Deadline::never()).status());
  return child_status(error, options, program);
}

}  // namespace trireme
