#include "launcher/coordinator/report.h"

#include <fmt/core.h>

#include <map>
#include <nlohmann/json.hpp>

#include <trireme/base/units.h>

#include "runtime/telemetry/api/verdict.h"

namespace trireme {
namespace {

// Ranks that ended alike share a line.
std::string describe_others(const AttemptRecord& attempt) {
  std::map<std::string, std::vector<int>> by_end;
  for (std::size_t i = 0; i < attempt.ranks.size(); ++i) {
    const int rank = static_cast<int>(i);
    if (rank == attempt.first_failure) continue;
    const RankRecord& record = attempt.ranks[i];
    const std::string how = record.ended_by_launcher ? "ended by the launcher, " : "";
    const bool lost = record.state == RankRecord::State::running;  // With its shim.
    by_end[how + record.describe() + (lost ? " when last heard of" : "")].push_back(rank);
  }
  std::string text;
  for (const auto& [end, ranks] : by_end) text += fmt::format("trireme:   {}: {}\n", rank_list(ranks), end);
  return text;
}

std::string describe_failure(const JobRecord& record, const AttemptRecord& attempt, const JobSpec& job) {
  const int rank = attempt.first_failure;
  const RankRecord& culprit = attempt.ranks[static_cast<std::size_t>(rank)];
  if (culprit.state == RankRecord::State::start_failed) {
    return fmt::format("trireme: rank {} could not be started on host {}: {}\n", rank, job.host, culprit.error);
  }
  std::string text =
      fmt::format("trireme: rank {} (host {}, pid {}) failed first: {}, {} after the attempt began", rank, job.host,
                  culprit.pid, culprit.describe(), format_duration_ms(culprit.ended_at_ms - attempt.started_at_ms));
  if (record.restarts > 0) text += fmt::format(" (attempt {}, after {} restarts)", attempt.attempt, record.restarts);
  text += '\n';
  if (culprit.last_lines.empty()) {
    text += "trireme:   it wrote nothing\n";
  } else {
    text += "trireme:   its last lines:\n";
    for (const std::string& line : culprit.last_lines) text += "trireme:   | " + line + "\n";
  }
  if (culprit.exit.core_dumped) {
    text += "trireme:   it dumped core; /proc/sys/kernel/core_pattern says where to\n";
  }
  return text;
}

std::string describe_verdict(const AttemptRecord& attempt, const JobSpec& job) {
  const JobVerdict& verdict = attempt.verdict;
  if (verdict.is_well()) return "";
  std::string text;
  for (const Finding& finding : verdict.findings) text += fmt::format("trireme: verdict: {}\n", finding.text);
  for (const std::string& line : verdict.progress) text += fmt::format("trireme:   {}\n", line);
  if (!job.output_directory.empty()) {
    text += fmt::format("trireme:   flight recorders: {}/recorder-rank-*.json\n", job.output_directory);
  }
  return text;
}

nlohmann::ordered_json verdict_as_json(const AttemptRecord& attempt) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const Finding& finding : attempt.verdict.findings) {
    json.push_back({{"kind", to_string(finding.kind)}, {"ranks", finding.ranks}, {"text", finding.text}});
  }
  return json;
}

nlohmann::ordered_json rank_as_json(const RankRecord& rank, int number, const JobSpec& job) {
  nlohmann::ordered_json json = {{"rank", number}, {"host", job.host}, {"pid", rank.pid}, {"state", rank.describe()}};
  const bool ended = rank.state == RankRecord::State::ended;
  json["exit_code"] = ended ? nlohmann::ordered_json(rank.exit.shell_code()) : nlohmann::ordered_json();
  json["signal"] = ended && rank.exit.signaled ? nlohmann::ordered_json(rank.exit.signal) : nlohmann::ordered_json();
  json["ended_by_launcher"] = rank.ended_by_launcher;
  json["ended_at_ms"] = rank.ended_at_ms;
  return json;
}

}  // namespace

std::string failure_summary(const JobRecord& record, const JobSpec& job) {
  if (record.outcome == Outcome::succeeded || record.outcome == Outcome::yielded) return "";
  std::string text;
  if (!record.lost.empty()) text += "trireme: host " + job.host + ": " + record.lost + "\n";
  if (record.outcome == Outcome::stopped) text += "trireme: stopped by " + signal_name(record.stop_signal) + "\n";
  if (!record.attempts.empty()) {
    const AttemptRecord& last = record.attempts.back();
    if (last.first_failure >= 0) text += describe_failure(record, last, job);
    text += describe_others(last);
    text += describe_verdict(last, job);
  }
  return text + fmt::format("trireme: exit code {}\n", record.exit_code);
}

std::string record_as_json(const JobRecord& record, const JobSpec& job) {
  nlohmann::ordered_json json = {{"job_id", job.job_id},
                                 {"program", job.program},
                                 {"arguments", job.arguments},
                                 {"ranks", job.world_size},
                                 {"outcome", to_string(record.outcome)},
                                 {"exit_code", record.exit_code},
                                 {"restarts", record.restarts}};
  json["attempts"] = nlohmann::ordered_json::array();
  for (const AttemptRecord& attempt : record.attempts) {
    nlohmann::ordered_json entry = {{"attempt", attempt.attempt},
                                    {"epoch", attempt.epoch},
                                    {"started_at_ms", attempt.started_at_ms},
                                    {"ended_at_ms", attempt.ended_at_ms}};
    const bool failed = attempt.first_failure >= 0;
    entry["first_failure"] = failed ? nlohmann::ordered_json(attempt.first_failure) : nlohmann::ordered_json();
    if (failed) entry["last_lines"] = attempt.ranks[static_cast<std::size_t>(attempt.first_failure)].last_lines;
    entry["verdict"] = verdict_as_json(attempt);
    entry["ranks"] = nlohmann::ordered_json::array();
    for (std::size_t i = 0; i < attempt.ranks.size(); ++i) {
      entry["ranks"].push_back(rank_as_json(attempt.ranks[i], static_cast<int>(i), job));
    }
    json["attempts"].push_back(std::move(entry));
  }
  // Output need not be UTF-8; what isn't is replaced, not refused.
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace trireme
