// Ranks as processes of their own, for the tests: starts test_rendezvous_rank (or a
// launcher that starts it) and collects what it prints.
#pragma once

#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "runtime/platform/api/process.h"

extern char** environ;

namespace trireme {

class RankProcess {
 public:
  // Starts `command` with our environment, without what some launcher put there, plus `variables`.
  RankProcess(std::vector<std::string> command, const std::vector<std::string>& variables,
              std::vector<int> keep_fds = {}) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    SpawnOptions options;
    options.program = command.front();
    options.arguments.assign(command.begin() + 1, command.end());
    options.environment = clean_environment();
    options.environment.insert(options.environment.end(), variables.begin(), variables.end());
    options.stdout_fd = options.stderr_fd = ends[1];
    options.keep_fds = std::move(keep_fds);
    Result<ChildProcess> child = ChildProcess::spawn(options);
    EXPECT_TRUE(child.is_ok()) << child.status().to_string();
    if (child.is_ok()) child_ = std::move(*child);
    ::close(ends[1]);
    reader_ = std::thread([this, fd = ends[0]] { read_all(fd); });
  }
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;
  ~RankProcess() {
    if (!waited_) (void)child_.send_signal(SIGKILL);
    finish();
  }

  // Waits for the end; afterwards output() is complete.
  int finish() {
    if (waited_) return code_;
    const Result<ExitState> state = child_.wait(Deadline::after_ms(60'000));
    if (!state.is_ok()) {
      ADD_FAILURE() << "a rank did not end: " << state.status().to_string();
      (void)child_.send_signal(SIGKILL);
      (void)child_.wait(Deadline::after_ms(60'000));
    }
    waited_ = true;
    code_ = state.is_ok() ? state->shell_code() : -1;
    reader_.join();
    return code_;
  }
  const std::string& output() const { return output_; }
  ChildProcess& child() { return child_; }

 private:
  static std::vector<std::string> clean_environment() {
    std::vector<std::string> kept;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string text = *entry;
      bool drop = false;
      for (const char* prefix : {"TRIREME_", "OMPI_", "PMIX_", "SLURM_", "RANK=", "WORLD_SIZE=", "MASTER_"}) {
        drop |= text.rfind(prefix, 0) == 0;
      }
      if (!drop) kept.push_back(text);
    }
    return kept;
  }
  void read_all(int fd) {
    char buffer[4096];
    while (true) {
      const ssize_t got = ::read(fd, buffer, sizeof(buffer));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      output_.append(buffer, static_cast<std::size_t>(got));
    }
    ::close(fd);
  }

  ChildProcess child_;
  std::thread reader_;
  std::string output_;
  bool waited_ = false;
  int code_ = -1;
};

inline std::size_t count_of(const std::string& text, const std::string& word) {
  std::size_t count = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

}  // namespace trireme
