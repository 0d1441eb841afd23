// The metrics file: one JSON object a line for every step, written by rank 0.
//
// Floating-point numbers are printed so that they read back to the same bits; what is
// not finite becomes null. Each line is written whole and at once. Opening the file for
// a run that resumes after step s removes the lines after s (in a copy that is renamed
// over the file), so the file always tells one history.
// Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <trireme/base/status.h>

namespace trireme::gpt {

struct StepMetrics {
  std::int64_t step = 0;
  double loss = 0;
  double grad_norm = 0;
  double lr = 0;
  std::int64_t tokens = 0;
  double tokens_per_second = 0;
  double step_ms = 0;
  std::int64_t skipped = 0;  // Steps skipped so far.
};

// One line, with its end.
std::string to_json_line(const StepMetrics& metrics);

// `contents` without the lines of later steps, unreadable lines and a line cut short.
std::string keep_steps(const std::string& contents, std::int64_t last_step);

class MetricsFile {
 public:
  // Creates the file, or keeps the lines up to `last_step` of the one there.
  // Errors: those of the file system, naming the path.
  static Result<std::unique_ptr<MetricsFile>> open(const std::string& path, std::int64_t last_step);
  ~MetricsFile();
  Status append(const StepMetrics& metrics);

 private:
  struct Impl;
  explicit MetricsFile(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme::gpt
