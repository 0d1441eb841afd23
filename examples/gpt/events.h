// What happens in a run besides steps: DIR/events.jsonl beside the metrics file, as
// docs/formats/run_folder.md says. Appended, never cut back.
// Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <trireme/base/status.h>

namespace trireme::gpt {

class EventFile {
 public:
  // The file beside `metrics_path`. Errors: those of the file system, naming the path.
  static Result<std::unique_ptr<EventFile>> open(const std::string& metrics_path);
  ~EventFile();

  struct Event {
    std::string event;  // "start", "resume", "checkpoint", ...
    std::int64_t step = 0;
    std::string detail;
    std::optional<double> held_out_loss;
  };
  Status append(const Event& event);

 private:
  struct Impl;
  explicit EventFile(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme::gpt
