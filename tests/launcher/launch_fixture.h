// Runs build/bin/trireme as a user would, and looks at what is left afterwards.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/platform/api/process.h"

namespace trireme::testing {

struct RunResult {
  int code = -1;
  std::string out;
  std::string err;
};

class LaunchTest : public ::testing::Test {
 protected:
  // A started `trireme ARGUMENTS`; its streams go to files in folder_.
  struct Running {
    ChildProcess process;
    std::string out_path;
    std::string err_path;
  };
  void SetUp() override;
  void TearDown() override;

  Running start(const std::vector<std::string>& arguments, const std::string& stdin_path = "",
                const std::vector<std::string>& environment = {});
  RunResult finish(Running& running);
  RunResult trireme(const std::vector<std::string>& arguments, const std::string& stdin_path = "",
                    const std::vector<std::string>& environment = {});
  // `trireme run FLAGS -- launch_probe PROBE`
  RunResult run(std::vector<std::string> flags, const std::vector<std::string>& probe);
  static std::vector<std::string> command(std::vector<std::string> flags, const std::vector<std::string>& probe);

  std::string file(const std::string& name) const { return folder_ + "/" + name; }
  // Waits until the file holds `lines` lines; fails the test when it takes too long.
  std::vector<std::string> wait_for_lines(const std::string& name, std::size_t lines);
  // Fails the test unless the processes whose pids `name` lists end soon.
  void expect_gone(const std::string& name);

  std::string folder_;
  int runs_ = 0;
};

std::vector<std::string> lines_of(const std::string& text);
bool is_alive(std::int64_t pid);

}  // namespace trireme::testing
