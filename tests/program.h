// Runs built programs as a user does, for tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/platform/api/process.h"

namespace trireme::test {

// The path of build/bin/NAME.
std::string built_program(const std::string& name);

struct Outcome {
  int code = -1;       // As a shell says it.
  std::string output;  // Standard output and error together.
};

// A started program. What it prints is kept in memory, so it never waits for a reader.
class Program {
 public:
  // command[0] is a path, or a name in PATH. `environment` has entries NAME=value that
  // replace or join this process's; a rank's own variables are not passed on. A failure to
  // start fails the test.
  explicit Program(const std::vector<std::string>& command, const std::vector<std::string>& environment = {});
  ~Program();  // Kills what still runs.
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Waits until it has printed `what`; false when it ends, or two minutes pass, without.
  bool prints(const std::string& what);
  // Waits for its end, two minutes at most.
  Outcome wait();
  bool running();
  void kill();
  std::int64_t pid() const { return process_.pid(); }
  // What it has printed by now.
  std::string output() const;

 private:
  UniqueFd output_;
  ChildProcess process_;
};

// For jobs under mpirun: ranks give way while they wait, and what Open MPI's own threads
// lose of their memory is not taken for ours by a leak checker.
std::vector<std::string> open_mpi_environment();

// Starts a program and waits for its end.
Outcome run(const std::vector<std::string>& command, const std::vector<std::string>& environment = {});

}  // namespace trireme::test
