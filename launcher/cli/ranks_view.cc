#include "launcher/cli/ranks_view.h"

#include <algorithm>

#include <fmt/core.h>
#include <trireme/base/units.h>
#include <nlohmann/json.hpp>

namespace trireme {
namespace {

// What a rank is about: its oldest pending call, or else its last one.
struct Focus {
  const RecordedCommunicator* communicator = nullptr;
  const RecordedCall* call = nullptr;
};

Focus focus_of(const RankView& rank) {
  Focus focus;
  if (!rank.has_joined()) return focus;
  for (const RecordedCommunicator& communicator : rank.recording->communicators) {
    if (!communicator.open || communicator.recent.empty()) continue;
    const RecordedCall* pending = communicator.pending_call();
    const RecordedCall* call = pending != nullptr ? pending : &communicator.recent.back();
    bool better = focus.call == nullptr;
    if (!better && call->pending() != focus.call->pending()) {
      better = call->pending();
    } else if (!better) {
      better = call->pending() ? call->entered_ns < focus.call->entered_ns : call->ended_ns > focus.call->ended_ns;
    }
    if (better) focus = {&communicator, call};
  }
  return focus;
}

std::string age(const RankView& rank, std::int64_t since_ns) {
  const std::int64_t ns = std::max<std::int64_t>(rank.recording->read_at_ns - since_ns, 0);
  return format_duration_ms(static_cast<std::uint64_t>(ns) / 1'000'000);
}

std::string call_text(const RecordedCall& call) {
  return call.is_message() ? call.describe() : fmt::format("#{} {}", call.sequence, call.describe());
}

struct Row {
  std::string cells[8];
};

Row row_of(const RankView& rank) {
  Row row{
      {std::to_string(rank.rank), rank.host, std::to_string(rank.pid), std::string(1, rank.state), "-", "-", "-", "-"}};
  if (!rank.ended.empty()) row.cells[5] = rank.ended;
  if (!rank.has_joined()) {
    if (rank.ended.empty()) row.cells[5] = "has not joined";
    return row;
  }
  if (rank.recording->left) row.cells[5] = "has left the job";
  const Focus focus = focus_of(rank);
  if (focus.call == nullptr) {
    if (row.cells[5] == "-") row.cells[5] = "no call yet";
    return row;
  }
  row.cells[4] = fmt::format("{:08x}/{}", focus.communicator->context >> 32, focus.communicator->size);
  const bool pending = focus.call->pending();
  row.cells[5] = (pending ? "in " : "after ") + call_text(*focus.call);
  row.cells[6] = age(rank, pending ? focus.call->entered_ns : focus.call->ended_ns);
  if (focus.call->waits_for >= 0) row.cells[7] = fmt::format("rank {}", focus.call->waits_for);
  return row;
}

std::string ranks_elsewhere(const JobView& job) {
  std::vector<int> missing;
  std::size_t next = 0;
  for (int rank = 0; rank < job.size; ++rank) {
    if (next < job.ranks.size() && job.ranks[next].rank == rank) {
      ++next;
    } else {
      missing.push_back(rank);
    }
  }
  return missing.empty() ? "" : fmt::format("not found on this host: {}\n", rank_list(missing));
}

nlohmann::ordered_json call_json(const RankView& rank, const RecordedCommunicator& communicator,
                                 const RecordedCall& call) {
  return {{"communicator", fmt::format("{:016x}", communicator.context)},
          {"size", communicator.size},
          {"op", call.op},
          {"sequence", call.sequence},
          {"call", call.describe()},
          {"pending", call.pending()},
          {"since_ms", (rank.recording->read_at_ns - (call.pending() ? call.entered_ns : call.ended_ns)) / 1'000'000},
          {"waits_for", call.waits_for >= 0 ? nlohmann::ordered_json(call.waits_for) : nlohmann::ordered_json()}};
}

nlohmann::ordered_json rank_json(const RankView& rank) {
  nlohmann::ordered_json json = {{"rank", rank.rank},
                                 {"host", rank.host},
                                 {"pid", rank.pid},
                                 {"state", std::string(1, rank.state)},
                                 {"joined", rank.has_joined()},
                                 {"calls", nlohmann::ordered_json::array()}};
  json["failure"] = rank.recording && rank.recording->failure ? nlohmann::ordered_json(rank.recording->failure->text)
                                                              : nlohmann::ordered_json();
  if (!rank.has_joined()) return json;
  for (const RecordedCommunicator& communicator : rank.recording->communicators) {
    if (!communicator.open || communicator.recent.empty()) continue;
    const RecordedCall* pending = communicator.pending_call();
    json["calls"].push_back(call_json(rank, communicator, pending != nullptr ? *pending : communicator.recent.back()));
  }
  return json;
}

}  // namespace

std::string ranks_table(const JudgedJob& judged) {
  std::vector<Row> rows = {{{"RANK", "HOST", "PID", "STATE", "COMMUNICATOR", "CALL", "SINCE", "WAITS FOR"}}};
  for (const RankView& rank : judged.job.ranks) rows.push_back(row_of(rank));
  std::size_t widths[8] = {};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < 8; ++i) widths[i] = std::max(widths[i], row.cells[i].size());
  }
  std::string text = fmt::format("job {}, {} rank{}: {}\n", judged.job.job_id, judged.job.size,
                                 judged.job.size == 1 ? "" : "s", judged.job.program);
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < 8; ++i)
      text += fmt::format("{:<{}}{}", row.cells[i], i < 7 ? widths[i] : 0, i < 7 ? "  " : "\n");
  }
  text += ranks_elsewhere(judged.job);
  if (judged.verdict.is_well()) return text + "verdict: all is well\n";
  for (const Finding& finding : judged.verdict.findings) text += fmt::format("verdict: {}\n", finding.text);
  for (const std::string& line : judged.verdict.progress) text += fmt::format("  {}\n", line);
  return text;
}

std::string ranks_json(const std::vector<JudgedJob>& jobs) {
  nlohmann::ordered_json json = {{"jobs", nlohmann::ordered_json::array()}};
  for (const JudgedJob& judged : jobs) {
    nlohmann::ordered_json entry = {{"job_id", judged.job.job_id},
                                    {"size", judged.job.size},
                                    {"program", judged.job.program},
                                    {"well", judged.verdict.is_well()},
                                    {"verdict", nlohmann::ordered_json::array()},
                                    {"ranks", nlohmann::ordered_json::array()}};
    for (const Finding& finding : judged.verdict.findings) {
      entry["verdict"].push_back({{"kind", to_string(finding.kind)}, {"ranks", finding.ranks}, {"text", finding.text}});
    }
    for (const RankView& rank : judged.job.ranks) entry["ranks"].push_back(rank_json(rank));
    json["jobs"].push_back(std::move(entry));
  }
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace trireme
