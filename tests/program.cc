#include "tests/program.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>

#include <trireme/platform/clock.h>

extern char** environ;

namespace trireme::test {
namespace {

constexpr std::uint64_t kPatienceMs = 120'000;
constexpr std::uint64_t kPollNs = 2'000'000;

std::string name_of(const std::string& entry) {
  return entry.substr(0, entry.find('=') + 1);
}

std::vector<std::string> environment_with(const std::vector<std::string>& own) {
  std::vector<std::string> all = own;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string name = name_of(*entry);
    const bool replaced =
        std::any_of(own.begin(), own.end(), [&](const std::string& other) { return name_of(other) == name; });
    if (!replaced && name != "TRIREME_RANK=" && name != "TRIREME_WORLD_SIZE=") all.emplace_back(*entry);
  }
  return all;
}

}  // namespace

std::string built_program(const std::string& name) {
  return std::string(TRIREME_BINARY_DIR) + "/bin/" + name;
}

Program::Program(const std::vector<std::string>& command, const std::vector<std::string>& environment)
    : output_(::memfd_create("output", MFD_CLOEXEC)) {
  SpawnOptions options;
  options.program = command.front();
  options.arguments.assign(command.begin() + 1, command.end());
  options.environment = environment_with(environment);
  options.stdout_fd = output_.get();
  options.stderr_fd = output_.get();
  Result<ChildProcess> process = ChildProcess::spawn(options);
  EXPECT_TRUE(process.is_ok()) << process.status().to_string();
  if (process.is_ok()) process_ = std::move(*process);
}

Program::~Program() {
  if (process_.pid() < 0 || !running()) return;
  kill();
  static_cast<void>(process_.wait(Deadline::after_ms(kPatienceMs)));
}

bool Program::prints(const std::string& what) {
  const Deadline deadline = Deadline::after_ms(kPatienceMs);
  while (true) {
    const bool may_go_on = running() && !deadline.expired();
    if (output().find(what) != std::string::npos) return true;
    if (!may_go_on) return false;
    system_clock().sleep_ns(kPollNs);
  }
}

Outcome Program::wait() {
  if (process_.pid() < 0) return {};
  const Result<ExitState> exit = process_.wait(Deadline::after_ms(kPatienceMs));
  EXPECT_TRUE(exit.is_ok()) << exit.status().to_string() << "\n" << output();
  return {exit.is_ok() ? exit->shell_code() : -1, output()};
}

bool Program::running() {
  const Result<ChildProcess::Poll> poll = process_.poll();
  return poll.is_ok() && !poll->ended;
}

void Program::kill() {
  static_cast<void>(process_.send_signal(SIGKILL));
}

std::string Program::output() const {
  std::string text;
  char buffer[65536];
  ssize_t got = 0;
  while ((got = ::pread(output_.get(), buffer, sizeof(buffer), static_cast<off_t>(text.size()))) > 0) {
    text.append(buffer, static_cast<std::size_t>(got));
  }
  return text;
}

std::vector<std::string> open_mpi_environment() {
  const char* options = ::getenv("ASAN_OPTIONS");
  return {"OMPI_MCA_mpi_yield_when_idle=1",
          "ASAN_OPTIONS=" + std::string(options == nullptr ? "" : options) + ":detect_leaks=0"};
}

Outcome run(const std::vector<std::string>& command, const std::vector<std::string>& environment) {
  return Program(command, environment).wait();
}

}  // namespace trireme::test
