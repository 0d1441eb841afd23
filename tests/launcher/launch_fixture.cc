#include "tests/launcher/launch_fixture.h"

#include <fcntl.h>

#include <sstream>

#include <trireme/platform/clock.h>

#include "runtime/platform/api/files.h"

extern char** environ;

namespace trireme::testing {
namespace {

constexpr std::uint64_t kPatienceMs = 60'000;

UniqueFd open_or_die(const std::string& path, int flags) {
  UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC, 0600));
  EXPECT_TRUE(fd.valid()) << path;
  return fd;
}

}  // namespace

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

bool is_alive(std::int64_t pid) {
  const Result<std::string> stat = read_file("/proc/" + std::to_string(pid) + "/stat");
  if (!stat.is_ok()) return false;
  const std::size_t state = stat->rfind(") ");
  return state != std::string::npos && (*stat)[state + 2] != 'Z' && (*stat)[state + 2] != 'X';
}

void LaunchTest::SetUp() {
  Result<std::string> folder = make_temporary_directory("trireme-launcher-");
  ASSERT_TRUE(folder.is_ok()) << folder.status().to_string();
  folder_ = *folder;
}

void LaunchTest::TearDown() {
  EXPECT_TRUE(remove_tree(folder_).is_ok());
}

LaunchTest::Running LaunchTest::start(const std::vector<std::string>& arguments, const std::string& stdin_path,
                                      const std::vector<std::string>& environment) {
  const std::string number = std::to_string(runs_++);
  Running running;
  running.out_path = file("out." + number);
  running.err_path = file("err." + number);
  SpawnOptions options;
  options.program = TRIREME_BINARY_DIR "/bin/trireme";
  options.arguments = arguments;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (std::string(*entry).rfind("TRIREME_", 0) != 0) options.environment.emplace_back(*entry);
  }
  options.environment.insert(options.environment.end(), environment.begin(), environment.end());
  const UniqueFd in = open_or_die(stdin_path.empty() ? "/dev/null" : stdin_path, O_RDONLY);
  const UniqueFd out = open_or_die(running.out_path, O_WRONLY | O_CREAT | O_TRUNC);
  const UniqueFd err = open_or_die(running.err_path, O_WRONLY | O_CREAT | O_TRUNC);
  options.stdin_fd = in.get();
  options.stdout_fd = out.get();
  options.stderr_fd = err.get();
  Result<ChildProcess> process = ChildProcess::spawn(options);
  EXPECT_TRUE(process.is_ok()) << process.status().to_string();
  if (process.is_ok()) running.process = std::move(*process);
  return running;
}

RunResult LaunchTest::finish(Running& running) {
  const Result<ExitState> exit = running.process.wait(Deadline::after_ms(kPatienceMs));
  EXPECT_TRUE(exit.is_ok()) << exit.status().to_string();
  RunResult result;
  if (exit.is_ok()) result.code = exit->shell_code();
  result.out = read_file(running.out_path).value();
  result.err = read_file(running.err_path).value();
  return result;
}

RunResult LaunchTest::trireme(const std::vector<std::string>& arguments, const std::string& stdin_path,
                              const std::vector<std::string>& environment) {
  Running running = start(arguments, stdin_path, environment);
  return finish(running);
}

std::vector<std::string> LaunchTest::command(std::vector<std::string> flags, const std::vector<std::string>& probe) {
  flags.insert(flags.begin(), {"run", "--oversubscribe"});
  flags.insert(flags.end(), {"--", TRIREME_BINARY_DIR "/tests/launch_probe"});
  flags.insert(flags.end(), probe.begin(), probe.end());
  return flags;
}

RunResult LaunchTest::run(std::vector<std::string> flags, const std::vector<std::string>& probe) {
  return trireme(command(std::move(flags), probe));
}

std::vector<std::string> LaunchTest::wait_for_lines(const std::string& name, std::size_t lines) {
  const Deadline deadline = Deadline::after_ms(kPatienceMs);
  std::vector<std::string> found;
  while (!deadline.expired()) {
    const Result<std::string> text = read_file(file(name));
    // Only whole lines count: the last one may still be being written.
    if (text.is_ok()) found = lines_of(text->substr(0, text->rfind('\n') + 1));
    if (found.size() >= lines) return found;
    system_clock().sleep_ns(2'000'000);
  }
  ADD_FAILURE() << name << " has " << found.size() << " lines; expected " << lines;
  return found;
}

void LaunchTest::expect_gone(const std::string& name) {
  const Deadline deadline = Deadline::after_ms(kPatienceMs);
  for (const std::string& line : lines_of(read_file(file(name)).value())) {
    const std::int64_t pid = std::stoll(line);
    while (is_alive(pid) && !deadline.expired()) system_clock().sleep_ns(2'000'000);
    EXPECT_FALSE(is_alive(pid)) << "process " << pid << " of " << name << " is still there";
  }
}

}  // namespace trireme::testing
