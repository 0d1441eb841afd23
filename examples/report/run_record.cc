#include "examples/report/run_record.h"

#include <functional>
#include <nlohmann/json.hpp>

#include "runtime/platform/api/files.h"

namespace trireme {
namespace {

using Json = nlohmann::json;

MetricsLine parse_metrics(const Json& object) {
  MetricsLine line;
  line.step = object.at("step").get<std::int64_t>();
  line.loss = object.at("loss").get<double>();
  line.grad_norm = object.value("grad_norm", 0.0);
  line.lr = object.value("lr", 0.0);
  line.tokens_per_second = object.value("tokens_per_second", 0.0);
  return line;
}

RunEvent parse_event(const Json& object) {
  RunEvent event;
  event.wall_ms = object.at("wall_ms").get<std::uint64_t>();
  event.event = object.at("event").get<std::string>();
  event.step = object.value("step", std::int64_t{0});
  event.attempt = object.value("attempt", 0);
  event.held_out_loss = object.value("held_out_loss", 0.0);
  event.detail = object.value("detail", std::string());
  return event;
}

// Calls `take` with each complete line's JSON.
Status for_each_line(const std::string& path, const std::function<void(const Json&)>& take) {
  TRIREME_ASSIGN_OR_RETURN(const std::string text, read_file(path));
  std::size_t begin = 0;
  for (int number = 1; begin < text.size(); ++number) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;  // Cut off while it was being written.
    try {
      take(Json::parse(text.begin() + static_cast<std::ptrdiff_t>(begin),
                       text.begin() + static_cast<std::ptrdiff_t>(end)));
    } catch (const Json::exception& error) {
      return invalid_argument(path + ":" + std::to_string(number) + ": not a line this version reads: " + error.what());
    }
    begin = end + 1;
  }
  return Status::ok();
}

}  // namespace

Result<RunRecord> read_run_record(const std::string& directory) {
  RunRecord record;
  record.title = directory;
  TRIREME_RETURN_IF_ERROR(for_each_line(directory + "/metrics.jsonl",
                                        [&](const Json& line) { record.metrics.push_back(parse_metrics(line)); }));
  const std::string events_path = directory + "/events.jsonl";
  TRIREME_ASSIGN_OR_RETURN(const FileInfo events, file_info(events_path));
  if (events.exists) {
    TRIREME_RETURN_IF_ERROR(
        for_each_line(events_path, [&](const Json& line) { record.events.push_back(parse_event(line)); }));
  }
  return record;
}

}  // namespace trireme
