#include "tests/numerics/program.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "runtime/platform/api/files.h"

namespace trireme::test {

namespace {

// Of a file that may vanish: a process's.
std::string contents_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> environment_with(const std::vector<std::string>& extra) {
  std::vector<std::string> all = extra;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const bool ours = text.rfind("TRIREME_RANK=", 0) == 0 || text.rfind("TRIREME_WORLD_SIZE=", 0) == 0;
    if (!ours) all.push_back(text);
  }
  return all;
}

}  // namespace

std::string built_program(const std::string& name) {
  return std::string(TRIREME_BINARY_DIR) + "/bin/" + name;
}

Program::Program(const std::string& program, const std::vector<std::string>& arguments, const std::string& output_path,
                 const std::vector<std::string>& extra_environment)
    : output_path_(output_path) {
  Result<File> output = File::open(output_path, File::Mode::create);
  if (!output.is_ok()) {
    ADD_FAILURE() << output.status().to_string();
    return;
  }
  SpawnOptions options;
  options.program = program;
  options.arguments = arguments;
  options.environment = environment_with(extra_environment);
  options.stdout_fd = output->fd();
  options.stderr_fd = output->fd();
  Result<ChildProcess> process = ChildProcess::spawn(options);
  if (!process.is_ok()) {
    ADD_FAILURE() << process.status().to_string();
    return;
  }
  process_ = std::move(*process);
}

Outcome Program::wait() {
  if (process_.pid() < 0) return {};
  const Result<ExitState> exit = process_.wait(Deadline::after_ms(120'000));
  Outcome outcome;
  outcome.output = contents_of(output_path_);
  if (!exit.is_ok()) {
    ADD_FAILURE() << exit.status().to_string() << "\n" << outcome.output;
    static_cast<void>(process_.send_signal(9));
    return outcome;
  }
  outcome.code = exit->shell_code();
  return outcome;
}

bool Program::running() {
  const Result<ChildProcess::Poll> poll = process_.poll();
  return poll.is_ok() && !poll->ended;
}

Outcome run(const std::string& program, const std::vector<std::string>& arguments, const std::string& output_path) {
  return Program(program, arguments, output_path).wait();
}

std::int64_t process_of_rank(const std::string& argument, int rank) {
  const std::string variable = "TRIREME_RANK=" + std::to_string(rank);
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string command_line = contents_of(entry.path() / "cmdline");
    if (command_line.find(argument) == std::string::npos) continue;
    const std::string environment = std::string(1, '\0') + contents_of(entry.path() / "environ");
    if (environment.find(std::string(1, '\0') + variable + std::string(1, '\0')) != std::string::npos) {
      return std::atoll(name.c_str());
    }
  }
  return -1;
}

std::vector<std::string> loss_columns(const std::string& metrics_path) {
  std::vector<std::string> columns;
  std::ifstream file(metrics_path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t begin = line.find("\"loss\":"), end = line.find(",\"lr\":");
    columns.push_back(begin < end && end != std::string::npos ? line.substr(begin, end - begin)
                                                              : "unreadable: " + line);
  }
  return columns;
}

std::vector<double> losses(const std::string& metrics_path) {
  std::vector<double> values;
  for (const std::string& columns : loss_columns(metrics_path)) {
    values.push_back(std::strtod(columns.c_str() + std::string("\"loss\":").size(), nullptr));
  }
  return values;
}

}  // namespace trireme::test
