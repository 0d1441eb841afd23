#include "examples/gpt/events.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include <trireme/platform/clock.h>
#include <trireme/platform/environment.h>

#include "runtime/platform/api/files.h"

namespace trireme::gpt {

struct EventFile::Impl {
  File file;
  std::int64_t attempt = 0;
};

EventFile::EventFile(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
EventFile::~EventFile() = default;

Result<std::unique_ptr<EventFile>> EventFile::open(const std::string& metrics_path) {
  const std::size_t slash = metrics_path.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : metrics_path.substr(0, slash + 1);
  TRIREME_ASSIGN_OR_RETURN(const std::int64_t attempt, environment_integer("TRIREME_ATTEMPT", 0, 0, INT32_MAX));
  TRIREME_ASSIGN_OR_RETURN(File file, File::open(folder + "events.jsonl", File::Mode::append));
  return std::unique_ptr<EventFile>(new EventFile(std::make_unique<Impl>(Impl{std::move(file), attempt})));
}

Status EventFile::append(const Event& event) {
  nlohmann::json line = {
      {"wall_ms", system_clock().wall_ms()}, {"event", event.event}, {"step", event.step}, {"attempt", impl_->attempt}};
  if (!event.detail.empty()) line["detail"] = event.detail;
  if (event.held_out_loss && std::isfinite(*event.held_out_loss)) line["held_out_loss"] = *event.held_out_loss;
  return impl_->file.write(line.dump() + "\n").with_context("event file");
}

}  // namespace trireme::gpt
