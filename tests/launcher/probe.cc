// launch_probe MODE ...: the program that the launcher's tests start as ranks.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <trireme/base/hash.h>
#include <trireme/rendezvous/world.h>

#include "runtime/platform/api/unique_fd.h"

namespace {

using Arguments = std::vector<std::string>;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}
int rank() {
  return std::atoi(variable("TRIREME_RANK").c_str());
}
int attempt() {
  return std::atoi(variable("TRIREME_ATTEMPT").c_str());
}

void append_line(const std::string& path, const std::string& line) {
  const trireme::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  const std::string text = line + "\n";
  if (::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) std::abort();
}

[[noreturn]] void wait_for_signals() {
  while (true) ::pause();
}

// exit CODE [RANK]: all ranks, or only that one; the others wait.
int exit_mode(const Arguments& a) {
  if (a.size() > 1 && std::stoi(a[1]) != rank()) wait_for_signals();
  return std::stoi(a[0]);
}

// hold FILE: writes its pid and waits.
int hold_mode(const Arguments& a) {
  append_line(a[0], std::to_string(::getpid()));
  wait_for_signals();
}

// raise SIGNAL RANK
int raise_mode(const Arguments& a) {
  if (std::stoi(a[1]) != rank()) wait_for_signals();
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  ::signal(std::stoi(a[0]), SIG_DFL);  // A sanitizer may have put its own there.
  ::raise(std::stoi(a[0]));
  return 0;
}

// attempts FILE CODE...: writes attempt and epoch, then exits with CODE[attempt]; rank 1 decides.
int attempts_mode(const Arguments& a) {
  append_line(a[0], std::to_string(rank()) + " " + variable("TRIREME_ATTEMPT") + " " + variable("TRIREME_EPOCH"));
  const std::size_t which = static_cast<std::size_t>(attempt()) + 1;
  const int code = which < a.size() ? std::stoi(a[which]) : 0;
  if (rank() != 1 && code != 0) wait_for_signals();
  return code;
}

int argv_mode(const Arguments& a) {
  for (const std::string& argument : a) {
    std::string hex;
    for (const unsigned char c : argument) {
      char text[3];
      std::snprintf(text, sizeof(text), "%02x", c);
      hex += text;
    }
    std::printf("[%s]\n", hex.c_str());
  }
  return 0;
}

// lines COUNT: on both streams, in odd pieces.
int lines_mode(const Arguments& a) {
  for (int i = 0; i < std::stoi(a[0]); ++i) {
    std::printf("line %d of rank %d %s\n", i, rank(), std::string(static_cast<std::size_t>(i % 97), 'x').c_str());
    if (i % 10 == 0) std::fprintf(stderr, "error %d of rank %d\n", i, rank());
  }
  return 0;
}

// pieces TEXT...: each written by itself, after the file GATE has appeared for the later ones.
int pieces_mode(const Arguments& a) {
  for (std::size_t i = 1; i < a.size(); ++i) {
    if (::write(1, a[i].data(), a[i].size()) < 0) return 1;
    append_line(a[0], "piece");
    ::usleep(20'000);
  }
  return 0;
}

// long BYTES: one line.
int long_mode(const Arguments& a) {
  std::string line(std::stoul(a[0]), 'a');
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), stdout);
  return 0;
}

int input_mode(const Arguments&) {
  trireme::Hasher hasher;
  std::size_t total = 0;
  std::vector<char> buffer(30'011);
  while (true) {
    const ssize_t got = ::read(0, buffer.data(), buffer.size());
    if (got <= 0) break;
    hasher.update(buffer.data(), static_cast<std::size_t>(got));
    total += static_cast<std::size_t>(got);
  }
  std::printf("%zu %016llx\n", total, static_cast<unsigned long long>(hasher.digest()));
  return 0;
}

std::string pid_file;
// Closing what it inherits of the pipe tells the rank that the pid is written.
[[noreturn]] void detached(bool ignores_term) {
  if (ignores_term) ::signal(SIGTERM, SIG_IGN);
  append_line(pid_file, std::to_string(::getpid()));
  for (int fd = 0; fd < 64; ++fd) ::close(fd);
  wait_for_signals();
}

// detach FILE CODE: leaves a child, one of its own session, and a doubly forked one that
// closed everything and ignores SIGTERM; when all have written their pids, it exits with
// CODE, or waits when that is -1.
int detach_mode(const Arguments& a) {
  pid_file = a[0];
  int written[2] = {-1, -1};
  if (::pipe(written) != 0) return 99;
  if (::fork() == 0) detached(false);
  if (::fork() == 0) {
    ::setsid();
    detached(false);
  }
  const pid_t middle = ::fork();
  if (middle == 0) {
    ::setsid();
    if (::fork() == 0) detached(true);
    ::_exit(0);
  }
  ::waitpid(middle, nullptr, 0);
  ::close(written[1]);
  char nothing = 0;
  while (::read(written[0], &nothing, 1) < 0 && errno == EINTR) {
  }
  append_line(pid_file, std::to_string(::getpid()));
  if (a[1] == "-1") wait_for_signals();
  return std::stoi(a[1]);
}

std::string signal_file;
int rank_of_handler = 0;
// A signal handler: no allocation.
void note_signal(int signal) {
  char text[32];
  const int length = std::snprintf(text, sizeof(text), "%d %d\n", rank_of_handler, signal);
  const int fd = ::open(signal_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (::write(fd, text, static_cast<std::size_t>(length)) != length) ::_exit(99);
  ::close(fd);
}

// signals FILE [CODE]: notes USR1, USR2, HUP and TERM of every rank; TERM ends it with CODE, or
// is ignored when there is none. A child in another process does the same for "c".
int signals_mode(const Arguments& a) {
  static int code = -1;
  if (a.size() > 1) code = std::stoi(a[1]);
  signal_file = a[0];
  rank_of_handler = rank();
  for (const int signal : {SIGUSR1, SIGUSR2, SIGHUP}) ::signal(signal, note_signal);
  const auto on_term = [](int signal) {
    note_signal(signal);
    if (code >= 0) ::_exit(code);
  };
  ::signal(SIGTERM, on_term);
  ::signal(SIGINT, on_term);
  append_line(a[0] + ".pids", std::to_string(::getpid()));
  if (::fork() == 0) {
    signal_file = a[0] + ".grandchild";
    append_line(a[0] + ".pids", std::to_string(::getpid()));
  }
  wait_for_signals();
}

// world CODE: joins; rank 1 of attempt 0 dies by SIGKILL, the others print the failure they see.
int world_mode(const Arguments& a) {
  trireme::Result<std::shared_ptr<trireme::World>> world = trireme::World::join();
  if (!world.is_ok()) {
    std::fprintf(stderr, "join: %s\n", world.status().to_string().c_str());
    return 1;
  }
  const auto meet =
      (*world)->exchange("meet", {0, 1, 2}, variable("TRIREME_ATTEMPT"), trireme::Deadline::after_ms(60'000));
  if (!meet.is_ok()) return 1;
  if (attempt() > 0) {
    std::printf("met %s %s %s in epoch %s\n", (*meet)[0].c_str(), (*meet)[1].c_str(), (*meet)[2].c_str(),
                variable("TRIREME_EPOCH").c_str());
    return 0;
  }
  if (rank() == 1) ::raise(SIGKILL);
  const auto never = (*world)->get("nobody puts this", trireme::Deadline::after_ms(60'000));
  const std::optional<trireme::Failure> failure = (*world)->failure();
  std::fprintf(stderr, "seen: %s\n", (failure ? failure->status : never.status()).message().c_str());
  return std::stoi(a[0]);
}

// environment NAME...
int environment_mode(const Arguments& a) {
  std::string line;
  for (const std::string& name : a) line += name + "=" + variable(name.c_str()) + " ";
  char secret[256];
  const ssize_t bytes = ::pread(std::atoi(variable("TRIREME_SECRET_FD").c_str()), secret, sizeof(secret), 0);
  std::printf("%ssecret=%zd\n", line.c_str(), bytes);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, std::function<int(const Arguments&)>> modes = {
      {"exit", exit_mode},       {"raise", raise_mode}, {"attempts", attempts_mode},
      {"argv", argv_mode},       {"lines", lines_mode}, {"pieces", pieces_mode},
      {"long", long_mode},       {"input", input_mode}, {"detach", detach_mode},
      {"signals", signals_mode}, {"world", world_mode}, {"environment", environment_mode},
      {"hold", hold_mode}};
  const auto mode = argc > 1 ? modes.find(argv[1]) : modes.end();
  if (mode == modes.end()) {
    std::fprintf(stderr, "launch_probe: no such mode\n");
    return 64;
  }
  return mode->second(Arguments(argv + 2, argv + argc));
}
