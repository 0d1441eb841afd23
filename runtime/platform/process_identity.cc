#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <sstream>

#include "runtime/platform/api/files.h"
#include "runtime/platform/api/process.h"

namespace trireme {

std::int64_t current_pid() {
  return ::getpid();
}

std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof(name) - 1) != 0) return "localhost";
  return name;
}

std::string boot_id() {
  const Result<std::string> text = read_file("/proc/sys/kernel/random/boot_id");
  if (!text.is_ok()) return {};
  return text->substr(0, text->find('\n'));
}

Result<ProcessIdentity> process_identity(std::int64_t pid) {
  // In a new PID namespace whose /proc is the old one's, "self" alone is right.
  const std::string folder = pid == current_pid() ? "self" : std::to_string(pid);
  const Result<std::string> text = read_file("/proc/" + folder + "/stat");
  if (!text.is_ok()) return not_found("process " + std::to_string(pid) + " is gone: " + text.status().message());
  // The name in parentheses may hold anything, so fields are counted after the last ')'.
  const std::size_t name_end = text->rfind(')');
  std::istringstream fields(name_end == std::string::npos ? std::string() : text->substr(name_end + 1));
  std::string ignored;
  for (int field = 3; field < 22; ++field) fields >> ignored;
  ProcessIdentity identity{pid, 0, boot_id()};
  if (!(fields >> identity.start_time_ticks)) {
    return data_loss("/proc/" + std::to_string(pid) + "/stat has no 22nd field: '" + *text + "'");
  }
  return identity;
}

std::string signal_name(int signal) {
  if (signal >= SIGRTMIN && signal <= SIGRTMAX) return "SIGRTMIN+" + std::to_string(signal - SIGRTMIN);
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? std::string("SIG") + name : "signal " + std::to_string(signal);
}

std::string random_bytes(std::size_t bytes) {
  std::string random(bytes, '\0');
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t got = ::getrandom(random.data() + done, bytes - done, 0);
    if (got < 0 && errno == EINTR) continue;
    TRIREME_CHECK(got > 0, "getrandom(2) failed: the kernel has no random numbers");
    done += static_cast<std::size_t>(got);
  }
  return random;
}

std::string random_hex(std::size_t bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(bytes * 2);
  for (const char byte : random_bytes(bytes)) {
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace trireme
