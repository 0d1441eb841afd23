#include "launcher/system/descriptors.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

extern char** environ;

namespace trireme {

void normalize_process() {
  ::signal(SIGCHLD, SIG_DFL);
  for (int fd = 0; fd < 3; ++fd) {
    // The lowest free number is the one that is closed.
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", O_RDWR);
  }
}

Result<Pipe> make_pipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return errno_status(errno, "create a pipe to a rank");
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

Status set_nonblocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags >= 0 && ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0) return Status::ok();
  return errno_status(errno, "make descriptor " + std::to_string(fd) + " non-blocking");
}

namespace {

Transfer transfer_of(ssize_t result) {
  if (result > 0) return {Transfer::State::moved, static_cast<std::size_t>(result), 0};
  if (result == 0) return {Transfer::State::ended, 0, 0};
  if (errno == EAGAIN) return {Transfer::State::would_block, 0, 0};
  return {Transfer::State::failed, 0, errno};
}

}  // namespace

Transfer read_some(int fd, char* data, std::size_t bytes) {
  ssize_t result = 0;
  do {
    result = ::read(fd, data, bytes);
  } while (result < 0 && errno == EINTR);
  return transfer_of(result);
}

Transfer write_some(int fd, std::string_view data) {
  ssize_t result = 0;
  do {
    result = ::write(fd, data.data(), data.size());
  } while (result < 0 && errno == EINTR);
  return transfer_of(result);
}

bool input_ready(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, 0) > 0;
}

StreamKind stream_kind(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return {};
  return {.regular_file = S_ISREG(info.st_mode), .terminal = ::isatty(fd) == 1, .socket = S_ISSOCK(info.st_mode)};
}

bool same_stream(int a, int b) {
  struct stat first {};
  struct stat second {};
  if (::fstat(a, &first) != 0 || ::fstat(b, &second) != 0) return false;
  return !S_ISREG(first.st_mode) && first.st_dev == second.st_dev && first.st_ino == second.st_ino &&
         first.st_rdev == second.st_rdev;
}

Result<UniqueFd> reopen_for_writing(int fd) {
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  UniqueFd copy(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  if (!copy.valid()) return errno_status(errno, "open " + path);
  return copy;
}

Result<UniqueFd> sealed_memory(const std::string& name, std::string_view contents) {
  UniqueFd fd(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return errno_status(errno, "create sealed memory '" + name + "'");
  while (!contents.empty()) {
    const Transfer written = write_some(fd.get(), contents);
    if (written.state != Transfer::State::moved) return errno_status(written.error_number, "fill sealed memory");
    contents.remove_prefix(written.bytes);
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0) {
    return errno_status(errno, "seal memory '" + name + "'");
  }
  return fd;
}

Status check_descriptors(std::size_t wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return errno_status(errno, "read the limit of open descriptors");
  if (limit.rlim_max >= wanted) return Status::ok();
  return resource_exhausted("this many ranks need " + std::to_string(wanted) +
                            " open descriptors, and the hard limit is " + std::to_string(limit.rlim_max) +
                            ": raise it (ulimit -Hn) or start fewer ranks");
}

std::size_t descriptors_of_shim(std::size_t ranks, bool with_files) {
  return 64 + ranks * (with_files ? 8 : 6);
}

Status want_descriptors(std::size_t wanted) {
  TRIREME_RETURN_IF_ERROR(check_descriptors(wanted));
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return errno_status(errno, "read the limit of open descriptors");
  if (limit.rlim_cur >= wanted) return Status::ok();
  limit.rlim_cur = wanted;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return errno_status(errno, "raise the limit of open descriptors");
  return Status::ok();
}

std::vector<std::string> environment_block() {
  std::vector<std::string> block;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) block.emplace_back(*entry);
  return block;
}

void set_process_name(const std::string& name) {
  ::prctl(PR_SET_NAME, name.c_str(), 0, 0, 0);
}

Result<std::string> executable_path() {
  char path[4096];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof(path));
  if (length <= 0) return errno_status(errno, "find this program's own file (/proc/self/exe)");
  return std::string(path, static_cast<std::size_t>(length));
}

Status execute(const std::string& path, const std::vector<std::string>& arguments) {
  std::vector<char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  ::execv(path.c_str(), pointers.data());
  return errno_status(errno, "execute '" + path + "'");
}

bool is_executable_file(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

}  // namespace trireme
