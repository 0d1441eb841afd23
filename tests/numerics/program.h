// Runs the built programs as a user does, for tests.
#pragma once

#include <string>
#include <vector>

#include "runtime/platform/api/process.h"

namespace trireme::test {

// The path of build/bin/NAME.
std::string built_program(const std::string& name);

struct Outcome {
  int code = -1;       // As a shell says it.
  std::string output;  // stdout and stderr together.
};

// A started program whose output goes to a file.
class Program {
 public:
  // REQUIRES: the program exists; a failure to start is a test failure with code -1.
  Program(const std::string& program, const std::vector<std::string>& arguments, const std::string& output_path,
          const std::vector<std::string>& extra_environment = {});
  // Waits for its end, two minutes at most.
  Outcome wait();
  bool running();

 private:
  ChildProcess process_;
  std::string output_path_;
};

// Starts `program` and waits.
Outcome run(const std::string& program, const std::vector<std::string>& arguments, const std::string& output_path);

// The process whose command line contains `argument` and whose environment says
// TRIREME_RANK=rank; -1 when there is none.
std::int64_t process_of_rank(const std::string& argument, int rank);

// The part of every line of a metrics file that must be the same bytes in equal runs:
// "loss":...,"grad_norm":...
std::vector<std::string> loss_columns(const std::string& metrics_path);
std::vector<double> losses(const std::string& metrics_path);

}  // namespace trireme::test
