#include "examples/gpt/metrics.h"

#include <cmath>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "runtime/platform/api/files.h"

namespace trireme::gpt {

namespace {

std::string number(double value) {
  return std::isfinite(value) ? fmt::format("{:.17g}", value) : "null";
}

// The step a line tells of, or -1 when it is not one of ours.
std::int64_t step_of(const std::string& line) {
  const nlohmann::json object = nlohmann::json::parse(line, nullptr, false);
  if (!object.is_object()) return -1;
  const auto step = object.find("step");
  return step != object.end() && step->is_number_integer() ? step->get<std::int64_t>() : -1;
}

}  // namespace

std::string to_json_line(const StepMetrics& m) {
  return fmt::format(
      "{{\"step\":{},\"loss\":{},\"grad_norm\":{},\"lr\":{},\"tokens\":{},\"tokens_per_second\":{},\"step_ms\":{},"
      "\"skipped\":{}}}\n",
      m.step, number(m.loss), number(m.grad_norm), number(m.lr), m.tokens, number(m.tokens_per_second),
      number(m.step_ms), m.skipped);
}

std::string keep_steps(const std::string& contents, std::int64_t last_step) {
  std::string kept;
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = contents.find('\n', begin);
    if (end == std::string::npos) return kept;
    const std::string line = contents.substr(begin, end - begin);
    const std::int64_t step = step_of(line);
    if (step >= 0 && step <= last_step) kept += line + "\n";
    begin = end + 1;
  }
}

struct MetricsFile::Impl {
  File file;
};

MetricsFile::MetricsFile(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
MetricsFile::~MetricsFile() = default;

Result<std::unique_ptr<MetricsFile>> MetricsFile::open(const std::string& path, std::int64_t last_step) {
  TRIREME_ASSIGN_OR_RETURN(const FileInfo info, file_info(path));
  std::string kept;
  if (info.is_directory) return invalid_argument("metrics file '" + path + "' is a folder; give the name of a file");
  if (info.is_file && last_step > 0) {
    TRIREME_ASSIGN_OR_RETURN(const std::string contents, read_file(path));
    kept = keep_steps(contents, last_step);
  }
  if (info.is_file || !info.exists) {  // Not of a device or a pipe: nothing there is kept or cut.
    TRIREME_RETURN_IF_ERROR(check_can_write(path).with_context("metrics file"));
    TRIREME_RETURN_IF_ERROR(write_file_atomically(path, kept).with_context("metrics file"));
  }
  TRIREME_ASSIGN_OR_RETURN(File file, File::open(path, File::Mode::append));
  return std::unique_ptr<MetricsFile>(new MetricsFile(std::make_unique<Impl>(Impl{std::move(file)})));
}

Status MetricsFile::append(const StepMetrics& metrics) {
  return impl_->file.write(to_json_line(metrics)).with_context("metrics file");
}

}  // namespace trireme::gpt
