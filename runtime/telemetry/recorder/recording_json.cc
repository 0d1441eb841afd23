// Recordings as JSON (docs/formats/recorder.md). Calls are written in full words: these
// files are read by people first.
#include <charconv>
#include <stdexcept>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "runtime/telemetry/api/recording.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "trireme-recording";
constexpr int kFormatVersion = 1;
constexpr const char* kStates[] = {"entered", "moving", "done", "failed"};
constexpr int kMostRanks = 1 << 24;
constexpr std::int64_t kLatestNs = 4'102'444'800'000'000'000;

Json call_to_json(const RecordedCall& call) {
  Json json = {{"index", call.index},
               {"sequence", call.sequence},
               {"op", call.op},
               {"type", std::string(to_string(call.type))},
               {"redop", std::string(to_string(call.reduction))},
               {"count", call.count},
               {"bytes", call.count * size_of(call.type)},
               {"root", call.root},
               {"tag", call.tag},
               {"algorithm", call.algorithm},
               {"state", kStates[static_cast<int>(call.state)]},
               {"entered_ns", call.entered_ns},
               {"started_ns", call.started_ns},
               {"ended_ns", call.ended_ns},
               {"waits_for", call.waits_for}};
  return json;
}

// The value whose to_string() the text is.
template <typename E>
E named(const Json& json, int count) {
  const auto text = json.get<std::string>();
  for (int i = 0; i < count; ++i) {
    if (to_string(static_cast<E>(i)) == text) return static_cast<E>(i);
  }
  throw std::invalid_argument("unknown name '" + text + "'");
}

// Of this side of the year 2100, so that differences are numbers too.
std::int64_t time_from_json(const Json& json) {
  const auto ns = json.get<std::int64_t>();
  if (ns < 0 || ns > kLatestNs) throw std::invalid_argument("a time is out of range");
  return ns;
}

RecordedCall call_from_json(const Json& json) {
  RecordedCall call;
  call.index = json.at("index").get<std::uint64_t>();
  call.sequence = json.at("sequence").get<std::uint64_t>();
  call.op = json.at("op").get<std::string>();
  call.type = named<DataType>(json.at("type"), kDataTypeCount);
  call.reduction = named<ReduceOp>(json.at("redop"), kReduceOpCount);
  call.count = json.at("count").get<std::uint64_t>();
  call.root = json.at("root").get<std::int32_t>();
  call.tag = json.at("tag").get<std::int32_t>();
  call.algorithm = json.at("algorithm").get<std::string>();
  const auto state = json.at("state").get<std::string>();
  int which = 0;
  while (which < 4 && state != kStates[which]) ++which;
  if (which == 4) throw std::invalid_argument("unknown state '" + state + "'");
  call.state = static_cast<CallState>(which);
  call.entered_ns = time_from_json(json.at("entered_ns"));
  call.started_ns = time_from_json(json.at("started_ns"));
  call.ended_ns = time_from_json(json.at("ended_ns"));
  call.waits_for = json.at("waits_for").get<int>();
  return call;
}

// Regular members as first and stride: a rank of thousands is in many large communicators.
Json members_to_json(const std::vector<int>& members) {
  if (members.size() < 3) return members;
  const int stride = members[1] - members[0];
  for (std::size_t i = 2; i < members.size(); ++i) {
    if (members[i] - members[i - 1] != stride) return members;
  }
  return {{"first", members[0]}, {"stride", stride}};
}

std::vector<int> members_from_json(const Json& json, int size) {
  if (json.is_array()) return json.get<std::vector<int>>();
  const std::int64_t first = json.at("first").get<int>();
  const std::int64_t stride = json.at("stride").get<int>();
  if (size < 0 || size > kMostRanks) throw std::invalid_argument("a communicator's size is out of range");
  std::vector<int> members;
  for (int i = 0; i < size; ++i) members.push_back(static_cast<int>(first + i * stride));
  return members;
}

std::uint64_t context_from_json(const Json& json) {
  const auto text = json.get<std::string>();
  std::uint64_t context = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), context, 16);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw std::invalid_argument("context '" + text + "' is no hexadecimal number");
  }
  return context;
}

Json communicator_to_json(const RecordedCommunicator& communicator) {
  Json json = {{"context", fmt::format("{:016x}", communicator.context)},
               {"open", communicator.open},
               {"rank", communicator.rank},
               {"size", communicator.size},
               {"members", members_to_json(communicator.members)},
               {"transports", communicator.transports},
               {"calls", communicator.calls},
               {"done_sequence", communicator.done_sequence},
               {"recent", Json::array()}};
  for (const RecordedCall& call : communicator.recent) json["recent"].push_back(call_to_json(call));
  return json;
}

RecordedCommunicator communicator_from_json(const Json& json) {
  RecordedCommunicator communicator;
  communicator.context = context_from_json(json.at("context"));
  communicator.open = json.at("open").get<bool>();
  communicator.rank = json.at("rank").get<int>();
  communicator.size = json.at("size").get<int>();
  communicator.members = members_from_json(json.at("members"), communicator.size);
  communicator.transports = json.at("transports").get<std::string>();
  communicator.calls = json.at("calls").get<std::uint64_t>();
  communicator.done_sequence = json.at("done_sequence").get<std::uint64_t>();
  for (const Json& call : json.at("recent")) communicator.recent.push_back(call_from_json(call));
  return communicator;
}

Json counters_to_json(const CallCounters& counters) {
  return {{"op", counters.op},
          {"algorithm", counters.algorithm},
          {"transports", counters.transports},
          {"failures", counters.failures},
          {"bytes", counters.bytes},
          {"nanoseconds", counters.nanoseconds},
          {"buckets", counters.buckets}};
}

CallCounters counters_from_json(const Json& json) {
  CallCounters counters;
  counters.op = json.at("op").get<std::string>();
  counters.algorithm = json.at("algorithm").get<std::string>();
  counters.transports = json.at("transports").get<std::string>();
  counters.failures = json.at("failures").get<std::uint64_t>();
  counters.bytes = json.at("bytes").get<std::uint64_t>();
  counters.nanoseconds = json.at("nanoseconds").get<std::uint64_t>();
  counters.buckets = json.at("buckets").get<decltype(counters.buckets)>();
  return counters;
}

Json identity_to_json(const Recording& recording) {
  const RecorderIdentity& identity = recording.identity;
  return {{"format", kFormat},
          {"version", kFormatVersion},
          {"job_id", identity.job_id},
          {"rank", identity.rank},
          {"size", identity.size},
          {"host", identity.host},
          {"node_rank", identity.node_rank},
          {"local_rank", identity.local_rank},
          {"epoch", identity.epoch},
          {"attempt", identity.attempt},
          {"program", identity.program},
          {"pid", recording.pid},
          {"start_ticks", recording.start_ticks},
          {"launched_pid", recording.launched_pid},
          {"left", recording.left},
          {"read_at_ns", recording.read_at_ns},
          {"unrecorded", recording.unrecorded}};
}

void identity_from_json(const Json& json, Recording& recording) {
  RecorderIdentity& identity = recording.identity;
  identity.job_id = json.at("job_id").get<std::string>();
  identity.rank = json.at("rank").get<int>();
  identity.size = json.at("size").get<int>();
  identity.host = json.at("host").get<std::string>();
  identity.node_rank = json.at("node_rank").get<int>();
  identity.local_rank = json.at("local_rank").get<int>();
  identity.epoch = json.at("epoch").get<std::int64_t>();
  identity.attempt = json.at("attempt").get<std::int64_t>();
  identity.program = json.at("program").get<std::string>();
  recording.pid = json.at("pid").get<std::int64_t>();
  recording.start_ticks = json.at("start_ticks").get<std::uint64_t>();
  recording.launched_pid = json.at("launched_pid").get<std::int64_t>();
  recording.left = json.at("left").get<bool>();
  recording.read_at_ns = time_from_json(json.at("read_at_ns"));
  recording.unrecorded = json.at("unrecorded").get<std::uint64_t>();
}

Recording parse(std::string_view text) {
  const Json json = Json::parse(text);
  if (!json.is_object() || json.value("format", "") != kFormat) {
    throw std::invalid_argument("it is no recording (\"format\" is not \"trireme-recording\")");
  }
  if (json.at("version").get<int>() != kFormatVersion) {
    throw std::invalid_argument(
        fmt::format("it has version {}, this program reads version {}", json.at("version").dump(), kFormatVersion));
  }
  Recording recording;
  identity_from_json(json, recording);
  if (const Json& failure = json.at("failure"); !failure.is_null()) {
    recording.failure = RecordedFailure{failure.at("text").get<std::string>(), failure.at("culprit").get<int>(),
                                        context_from_json(failure.at("context"))};
  }
  for (const Json& entry : json.at("communicators")) recording.communicators.push_back(communicator_from_json(entry));
  for (const Json& entry : json.at("counters")) recording.counters.push_back(counters_from_json(entry));
  for (const Json& entry : json.at("named")) {
    recording.named.push_back({entry.at("name").get<std::string>(), entry.at("labels").get<std::string>(),
                               entry.at("gauge").get<bool>(), entry.at("value").get<std::uint64_t>()});
  }
  return recording;
}

}  // namespace

std::string recording_to_json(const Recording& recording) {
  Json json = identity_to_json(recording);
  json["failure"] = nullptr;
  if (recording.failure) {
    json["failure"] = {{"text", recording.failure->text},
                       {"culprit", recording.failure->culprit},
                       {"context", fmt::format("{:016x}", recording.failure->context)}};
  }
  json["communicators"] = Json::array();
  for (const auto& communicator : recording.communicators) {
    json["communicators"].push_back(communicator_to_json(communicator));
  }
  json["counters"] = Json::array();
  for (const auto& counters : recording.counters) json["counters"].push_back(counters_to_json(counters));
  json["named"] = Json::array();
  for (const auto& value : recording.named) {
    json["named"].push_back(
        {{"name", value.name}, {"labels", value.labels}, {"gauge", value.is_gauge}, {"value", value.value}});
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Recording> recording_from_json(std::string_view text) {
  try {
    return parse(text);
  } catch (const std::exception& error) {
    return invalid_argument(std::string("not a recording of a rank: ") + error.what());
  }
}

}  // namespace trireme
