#include "launcher/shim/exit_record.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "runtime/platform/api/files.h"

namespace trireme {

Status ExitRecord::write(const JobSpec& job, const message::StartAttempt& attempt) const {
  nlohmann::ordered_json json = {{"job_id", job.job_id},   {"host", job.host},
                                 {"boot_id", boot_id()},   {"attempt", attempt.attempt},
                                 {"epoch", attempt.epoch}, {"ranks", nlohmann::ordered_json::array()}};
  for (const Entry& entry : entries) {
    nlohmann::ordered_json rank = {{"rank", entry.rank}, {"pid", entry.pid}, {"started", entry.started}};
    if (entry.started) {
      rank["exit_code"] = entry.exit.shell_code();
      rank["signal"] = entry.exit.signal;
      rank["core_dumped"] = entry.exit.core_dumped;
      rank["ended_wall_ms"] = entry.ended_wall_ms;
    }
    json["ranks"].push_back(std::move(rank));
  }
  const std::string path = fmt::format("{}/attempt-{}.json", job.output_directory, attempt.attempt);
  return write_file_atomically(path, json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace trireme
