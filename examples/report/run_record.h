// What a training run left in its folder, read back (docs/formats/run_folder.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <trireme/base/status.h>

namespace trireme {

struct MetricsLine {
  std::int64_t step = 0;
  double loss = 0;
  double grad_norm = 0;
  double lr = 0;
  double tokens_per_second = 0;
};

struct RunEvent {
  std::uint64_t wall_ms = 0;
  std::string event;
  std::int64_t step = 0;
  int attempt = 0;
  double held_out_loss = 0;  // 0 when the event has none.
  std::string detail;
};

struct RunRecord {
  std::string title;
  std::vector<MetricsLine> metrics;
  std::vector<RunEvent> events;
};

// Reads DIR/metrics.jsonl (required) and DIR/events.jsonl (optional). A last line that
// was cut off by a crash is left out. Errors: not_found, or invalid_argument with file
// and line.
Result<RunRecord> read_run_record(const std::string& directory);

}  // namespace trireme
