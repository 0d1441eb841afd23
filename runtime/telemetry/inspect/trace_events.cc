// The trace-event format (JSON object form): a process per rank, a thread per
// communicator. Collectives of one communicator run one after the other, so they are
// complete events ("X") of its thread, from their start to their end; the time a call
// waited in the queue, and messages, which overlap freely, are asynchronous events
// ("b", "e") with an id. A flow ("s", "t", "f") leads through the ranks' parts of one
// collective, in the order in which they began. Times are microseconds since the earliest
// call.
#include <algorithm>
#include <map>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "runtime/telemetry/api/inspect.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kStates[] = {"entered", "moving", "done", "failed"};

class Writer {
 public:
  explicit Writer(std::int64_t origin_ns) : origin_ns_(origin_ns) {}

  void add_rank(const Recording& recording) {
    const RecorderIdentity& who = recording.identity;
    name("process_name", who.rank, -1, fmt::format("rank {} ({}, pid {})", who.rank, who.host, recording.pid));
    Json sort = {{"name", "process_sort_index"}, {"ph", "M"}, {"pid", who.rank}};
    sort["args"] = {{"sort_index", who.rank}};
    events_.push_back(std::move(sort));
    int thread = 0;
    for (const RecordedCommunicator& communicator : recording.communicators) {
      name("thread_name", who.rank, thread,
           fmt::format("communicator {:016x} ({} ranks, {})", communicator.context, communicator.size,
                       communicator.transports));
      for (const RecordedCall& call : communicator.recent) add_call(recording, communicator, call, thread);
      ++thread;
    }
  }

  void add_flows() {
    for (auto& [call, parts] : parts_) {
      if (parts.size() < 2) continue;
      std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.start_ns < b.start_ns; });
      const std::string id = fmt::format("{:#x}", ++next_id_);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const char* phase = i == 0 ? "s" : i + 1 < parts.size() ? "t" : "f";
        Json event = {{"name", parts[i].op}, {"cat", "flow"}, {"ph", phase}, {"id", id}};
        event["pid"] = parts[i].pid;
        event["tid"] = parts[i].tid;
        event["ts"] = microseconds(parts[i].start_ns);
        event["bp"] = "e";  // Of the slice around it, not of the next one.
        events_.push_back(std::move(event));
      }
    }
  }

  std::string take() {
    Json json = {{"displayTimeUnit", "ns"}, {"traceEvents", std::move(events_)}};
    json["otherData"] = {{"origin_ns", std::to_string(origin_ns_)}};
    return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }

 private:
  // A rank's part of a collective.
  struct Part {
    std::int64_t start_ns;
    int pid;
    int tid;
    std::string op;
  };

  void name(const char* what, int pid, int tid, const std::string& text) {
    Json event = {{"name", what}, {"ph", "M"}, {"pid", pid}};
    if (tid >= 0) event["tid"] = tid;
    event["args"] = {{"name", text}};
    events_.push_back(std::move(event));
  }

  double microseconds(std::int64_t ns) const { return static_cast<double>(ns - origin_ns_) / 1000; }

  void add_async(const Json& base, const std::string& name, const char* category, std::int64_t from, std::int64_t to) {
    const std::string id = fmt::format("{:#x}", ++next_id_);
    for (const char* phase : {"b", "e"}) {
      Json event = base;
      event["name"] = name;
      event["cat"] = category;
      event["ph"] = phase;
      event["id"] = id;
      event["ts"] = microseconds(phase[0] == 'b' ? from : to);
      if (phase[0] == 'e') event.erase("args");
      events_.push_back(std::move(event));
    }
  }

  void add_call(const Recording& recording, const RecordedCommunicator& communicator, const RecordedCall& call,
                int thread) {
    const std::int64_t end = std::max(call.pending() ? recording.read_at_ns : call.ended_ns, call.entered_ns);
    Json base = {{"pid", recording.identity.rank}, {"tid", thread}};
    base["args"] = {{"call", call.describe()},     {"sequence", call.sequence},
                    {"count", call.count},         {"bytes", call.count * size_of(call.type)},
                    {"algorithm", call.algorithm}, {"state", kStates[static_cast<int>(call.state)]},
                    {"waits_for", call.waits_for}, {"context", fmt::format("{:016x}", communicator.context)}};
    if (call.is_message()) return add_async(base, call.op, "message", call.entered_ns, end);
    const std::int64_t start = call.started_ns == 0 ? end : std::clamp(call.started_ns, call.entered_ns, end);
    if (start > call.entered_ns) add_async(base, call.op + " queued", "queue", call.entered_ns, start);
    if (call.started_ns == 0) return;
    Json event = {{"name", call.op}, {"cat", "collective"}, {"ph", "X"}};
    event["ts"] = microseconds(start);
    event["dur"] = static_cast<double>(end - start) / 1000;
    event.update(base);
    events_.push_back(std::move(event));
    parts_[{communicator.context, call.sequence}].push_back({start, recording.identity.rank, thread, call.op});
  }

  std::int64_t origin_ns_;
  std::uint64_t next_id_ = 0;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::vector<Part>> parts_;  // By context and sequence.
  Json events_ = Json::array();
};

}  // namespace

std::string trace_events(const std::vector<Recording>& recordings) {
  std::int64_t origin = INT64_MAX;
  for (const Recording& recording : recordings) {
    for (const RecordedCommunicator& communicator : recording.communicators) {
      for (const RecordedCall& call : communicator.recent) origin = std::min(origin, call.entered_ns);
    }
  }
  Writer writer(origin == INT64_MAX ? 0 : origin);
  for (const Recording& recording : recordings) writer.add_rank(recording);
  writer.add_flows();
  return writer.take();
}

}  // namespace trireme
