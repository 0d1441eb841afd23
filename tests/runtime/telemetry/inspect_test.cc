// What is made of recordings: traces, metrics, views, and what is found on this host.
#include "runtime/telemetry/api/inspect.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include <trireme/platform/clock.h>

#include "runtime/platform/api/files.h"
#include "runtime/telemetry/api/metrics_exporter.h"

namespace trireme {
namespace {

using Json = nlohmann::json;

// Told apart from those of other tests that run now; equal in forked children.
const std::string kJob = "inspect-" + std::to_string(::getpid());

RecorderIdentity identity(int rank) {
  RecorderIdentity who;
  who.job_id = kJob;
  who.host = "node\"1\\";
  who.program = "train";
  who.rank = rank;
  who.size = 2;
  return who;
}

std::shared_ptr<Recorder> make_recorder(int rank) {
  auto recorder = Recorder::open(identity(rank), -1);
  recorder->name_op(0, "all_reduce");
  recorder->name_op(7, "send");
  recorder->name_algorithm(1, "ring");
  return recorder;
}

// Twenty collectives, some of them queued behind one another, a failed one, messages that
// overlap, and one call of each kind that has not ended.
std::shared_ptr<RecorderChannel> make_calls(Recorder& recorder) {
  auto channel = recorder.open_channel(0x12, 0, {0, 1}, "shm");
  for (std::uint64_t i = 1; i <= 20; i += 2) {
    const std::uint64_t a = channel->enter({0, DataType::f32, ReduceOp::sum, i, 1000, 0, 0}, tsc_now());
    const std::uint64_t b = channel->enter({0, DataType::f32, ReduceOp::sum, i + 1, 1000, 0, 0}, tsc_now());
    const std::uint64_t message = channel->enter({7, DataType::u8, ReduceOp::sum, 0, 64, 1, 5}, tsc_now());
    channel->start(a, 1, tsc_now());
    channel->end(a, true, tsc_now());
    channel->start(b, 1, tsc_now());
    channel->end(b, i != 19, tsc_now());
    if (i != 1) channel->end(message, true, tsc_now());
  }
  channel->start(channel->enter({0, DataType::f32, ReduceOp::sum, 21, 1000, 0, 0}, tsc_now()), 1, tsc_now());
  channel->enter({0, DataType::f32, ReduceOp::sum, 22, 1000, 0, 0}, tsc_now());
  return channel;
}

// The rules of the trace-event format for the phases that are used.
void check_event(const Json& event, std::map<std::string, int>& open_async) {
  const auto phase = event.at("ph").get<std::string>();
  ASSERT_TRUE(event.at("name").is_string());
  ASSERT_TRUE(event.at("pid").is_number_integer());
  if (phase == "M") {
    const std::set<std::string> known = {"process_name", "thread_name", "process_sort_index"};
    EXPECT_TRUE(known.contains(event["name"])) << event;
    EXPECT_TRUE(event.at("args").is_object());
    return;
  }
  ASSERT_TRUE(event.at("tid").is_number_integer());
  ASSERT_TRUE(event.at("cat").is_string());
  ASSERT_GE(event.at("ts").get<double>(), 0);
  if (phase == "X") {
    EXPECT_GE(event.at("dur").get<double>(), 0);
    return;
  }
  if (event["cat"] == "flow") {
    EXPECT_TRUE(phase == "s" || phase == "t" || phase == "f") << event;
    EXPECT_TRUE(event.at("id").is_string());
    return;
  }
  ASSERT_TRUE(phase == "b" || phase == "e") << event;
  const std::string key =
      event["cat"].get<std::string>() + event.at("id").get<std::string>() + event["name"].get<std::string>();
  open_async[key] += phase == "b" ? 1 : -1;
  EXPECT_GE(open_async[key], 0) << "an end before its beginning: " << event;
}

TEST(Inspect, TracesKeepTheFormatsRules) {
  std::vector<Recording> recordings;
  for (int rank = 0; rank < 2; ++rank) {
    const auto recorder = make_recorder(rank);
    const auto channel = make_calls(*recorder);
    recordings.push_back(read_recording(recorder->fd()).value());
  }
  const Json trace = Json::parse(trace_events(recordings));
  std::map<std::string, int> open_async;
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> complete;
  for (const Json& event : trace.at("traceEvents")) {
    check_event(event, open_async);
    if (event["ph"] != "X") continue;
    complete[{event["pid"], event["tid"]}].push_back(
        {event["ts"], event["ts"].get<double>() + event["dur"].get<double>()});
  }
  for (const auto& [key, open] : open_async) EXPECT_EQ(open, 0) << key;
  EXPECT_GE(open_async.size(), 40u);
  ASSERT_EQ(complete.size(), 2u);
  for (auto& [track, spans] : complete) {
    EXPECT_EQ(spans.size(), 21u);
    std::sort(spans.begin(), spans.end());
    for (std::size_t i = 1; i < spans.size(); ++i) EXPECT_GE(spans[i].first, spans[i - 1].second - 0.002);
  }
  EXPECT_TRUE(Json::parse(trace_events({})).at("traceEvents").empty());
}

TEST(Inspect, FlowsLeadThroughTheRanksOfOneCollective) {
  std::vector<Recording> recordings;
  for (int rank = 0; rank < 3; ++rank) {
    const auto recorder = make_recorder(rank);
    const auto channel = make_calls(*recorder);
    recordings.push_back(read_recording(recorder->fd()).value());
  }
  std::map<std::string, std::vector<Json>> flows;
  const Json trace = Json::parse(trace_events(recordings));
  for (const Json& event : trace.at("traceEvents")) {
    if (event.value("cat", "") == "flow") flows[event["id"]].push_back(event);
  }
  EXPECT_EQ(flows.size(), 21u);  // The collectives that each rank has begun.
  for (const auto& [id, steps] : flows) {
    ASSERT_EQ(steps.size(), 3u) << id;
    std::set<int> ranks;
    std::string phases;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      phases += steps[i]["ph"].get<std::string>();
      ranks.insert(steps[i]["pid"].get<int>());
      if (i > 0) {
        EXPECT_LE(steps[i - 1]["ts"].get<double>(), steps[i]["ts"].get<double>());
      }
      // Each lies at the beginning of a slice of its rank.
      const bool bound = std::any_of(trace["traceEvents"].begin(), trace["traceEvents"].end(), [&](const Json& event) {
        return event["ph"] == "X" && event["pid"] == steps[i]["pid"] && event["tid"] == steps[i]["tid"] &&
               event["ts"] == steps[i]["ts"] && event["name"] == steps[i]["name"];
      });
      EXPECT_TRUE(bound) << steps[i];
    }
    EXPECT_EQ(phases, "stf");
    EXPECT_EQ(ranks, (std::set<int>{0, 1, 2}));
  }
}

// Prometheus' text format: families in one piece, types before samples, legal names and
// labels, histograms that add up.
TEST(Inspect, MetricsKeepTheFormatsRules) {
  const auto recorder = make_recorder(1);
  const auto channel = make_calls(*recorder);
  recorder->count_failure(peer_dead("x"));
  recorder->metric("trireme_streams", "", true)->store(4);
  const std::string text = metrics_text({read_recording(recorder->fd()).value()});
  const std::regex sample(R"re(([a-zA-Z_:][a-zA-Z0-9_:]*)\{(([a-zA-Z_][a-zA-Z0-9_]*="(\\.|[^"\\])*",?)*)\} (\S+))re");
  std::map<std::string, std::string> types;
  std::map<std::string, double> values;
  std::set<std::string> finished;
  std::string family;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("# HELP", 0) == 0) continue;
    if (line.rfind("# TYPE ", 0) == 0) {
      std::istringstream words(line.substr(7));
      finished.insert(family);
      words >> family >> types[family];
      EXPECT_FALSE(finished.contains(family)) << line;
      continue;
    }
    std::smatch match;
    ASSERT_TRUE(std::regex_match(line, match, sample)) << line;
    std::string base = match[1];
    if (types[family] == "histogram") base = std::regex_replace(base, std::regex("_(bucket|sum|count)$"), "");
    EXPECT_EQ(base, family) << line;
    if (types[family] == "counter") {
      EXPECT_EQ(base.substr(base.size() - 6), "_total") << line;
    }
    EXPECT_TRUE(values.emplace(line.substr(0, line.rfind(' ')), std::stod(match[5])).second) << "twice: " << line;
  }
  const std::string labels = "trireme_job=\"" + identity(1).job_id + "\",rank=\"1\"";
  const std::string call = "{" + labels + ",op=\"all_reduce\",algorithm=\"ring\",transport=\"shm\"";
  EXPECT_EQ(values.at("trireme_call_bytes_total" + call + "}"), 19 * 4000);
  EXPECT_EQ(values.at("trireme_call_failures_total" + call + "}"), 1);
  EXPECT_EQ(values.at("trireme_call_duration_seconds_count" + call + "}"), 19);
  EXPECT_EQ(values.at("trireme_call_duration_seconds_bucket" + call + ",le=\"+Inf\"}"), 19);
  EXPECT_GT(values.at("trireme_call_duration_seconds_sum" + call + "}"), 0);
  EXPECT_EQ(values.at("trireme_calls_pending{" + labels + "}"), 3);
  EXPECT_EQ(values.at("trireme_failures_total{" + labels + ",code=\"peer_dead\"}"), 1);
  EXPECT_EQ(values.at("trireme_streams{" + labels + "}"), 4);
  EXPECT_EQ(types.at("trireme_streams"), "gauge");
  EXPECT_NE(text.find("host=\"node\\\"1\\\\\""), std::string::npos) << text;
}

TEST(Inspect, BucketsHoldWhatTheirBoundsSay) {
  EXPECT_EQ(bucket_bound_ns(0), 1024u);
  EXPECT_EQ(bucket_bound_ns(1), 4096u);
  EXPECT_EQ(bucket_bound_ns(recorder_layout::kBuckets - 1), UINT64_MAX);
  const auto recorder = make_recorder(0);
  const auto channel = recorder->open_channel(1, 0, {0, 1}, "shm");
  const double ticks_per_ns = 1e9 / static_cast<double>(tsc_to_ns(1'000'000'000));
  for (const double ns : {100.0, 2000.0, 3'000'000.0, 5e9, 900e9}) {
    const auto spent = static_cast<std::uint64_t>(ns * ticks_per_ns);
    const std::uint64_t start = std::uint64_t{1} << 50;
    channel->end(channel->enter({0, DataType::u8, ReduceOp::sum, 1, 1, 0, 0}, start), true, start + spent);
  }
  const CallCounters counters = read_recording(recorder->fd())->counters.at(0);
  std::vector<std::uint64_t> expected(recorder_layout::kBuckets);
  for (const double ns : {100.0, 2000.0, 3'000'000.0, 5e9, 900e9}) {
    std::size_t i = 0;
    while (ns > static_cast<double>(bucket_bound_ns(i))) ++i;
    ++expected[i];
  }
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(counters.buckets[i], expected[i]) << i;
}

TEST(Inspect, ViewsSurviveTheWire) {
  const auto recorder = make_recorder(1);
  const auto channel = make_calls(*recorder);
  RankView view{1, "node1", 4711, 'T', "signal 9 (SIGKILL)", true, read_recording(recorder->fd()).value()};
  const auto again = rank_view_from_json(rank_view_to_json(view));
  ASSERT_TRUE(again.is_ok()) << again.status().to_string();
  EXPECT_EQ(rank_view_to_json(*again), rank_view_to_json(view));
  view.recording.reset();
  EXPECT_FALSE(rank_view_from_json(rank_view_to_json(view))->recording.has_value());
  EXPECT_EQ(rank_view_from_json("{}").status().code(), StatusCode::invalid_argument);
  EXPECT_EQ(rank_view_from_json("nonsense").status().code(), StatusCode::invalid_argument);
}

const JobView* find(const std::vector<JobView>& jobs, const std::string& id) {
  for (const JobView& job : jobs) {
    if (job.job_id == id) return &job;
  }
  return nullptr;
}

TEST(Inspect, AStoppedRankIsFoundByTheDescriptorsItHolds) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto recorder = make_recorder(1);
    const auto channel = make_calls(*recorder);
    if (::write(ready[1], "x", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ::kill(child, SIGSTOP);
  int state = 0;
  ::waitpid(child, &state, WUNTRACED);
  const std::vector<JobView> jobs = find_jobs();
  const JobView* job = find(jobs, kJob);
  if (job != nullptr) {
    ASSERT_EQ(job->ranks.size(), 1u);
    EXPECT_EQ(job->ranks[0].rank, 1);
    EXPECT_EQ(job->ranks[0].pid, child);
    EXPECT_EQ(job->ranks[0].state, 'T');
    EXPECT_EQ(job->ranks[0].recording->communicators.at(0).last_collective()->sequence, 22u);
    for (const std::string& which : {job->job_id, std::to_string(child), std::to_string(::getpid())}) {
      EXPECT_EQ(choose_job(jobs, which)->job_id, job->job_id) << which;
    }
  } else {
    ADD_FAILURE() << "no such job among " << jobs.size();
  }
  EXPECT_EQ(choose_job(jobs, "no such job").status().code(), StatusCode::not_found);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  const std::vector<JobView> after = find_jobs();
  EXPECT_EQ(find(after, kJob), nullptr);
  EXPECT_EQ(process_state(child), 'X');
  ::close(ready[0]);
  ::close(ready[1]);
}

std::string ask(const std::string& url, const std::string& request) {
  const std::string address = "127.0.0.1" + url.substr(url.rfind(':'), url.rfind('/') - url.rfind(':'));
  const Deadline deadline = Deadline::after_ms(20'000);
  auto socket = Socket::connect(SocketAddress::parse(address).value(), deadline);
  EXPECT_TRUE(socket.is_ok()) << socket.status().to_string();
  EXPECT_TRUE(socket->send_all(request.data(), request.size(), deadline).is_ok());
  std::string answer;
  char byte = 0;
  while (socket->receive_all(&byte, 1, deadline).is_ok()) answer += byte;
  return answer;
}

TEST(MetricsExport, ByFileAndByHttp) {
  const std::string folder = make_temporary_directory("trireme-metrics-").value();
  MetricsOptions options;
  options.file = folder + "/trireme.prom";
  options.address = "127.0.0.1:0";
  {
    const auto exporter = MetricsExporter::start(options, [] { return std::string("trireme_x{} 1\n"); });
    ASSERT_TRUE(exporter.is_ok()) << exporter.status().to_string();
    const std::string url = (*exporter)->url();
    const std::string answer = ask(url, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_EQ(answer.rfind("HTTP/1.1 200 OK\r\n", 0), 0u) << answer;
    EXPECT_NE(answer.find("Content-Type: text/plain; version=0.0.4"), std::string::npos) << answer;
    EXPECT_NE(answer.find("\r\n\r\ntrireme_x{} 1\n"), std::string::npos) << answer;
    EXPECT_EQ(ask(url, "GET /other HTTP/1.1\r\n\r\n").rfind("HTTP/1.1 404", 0), 0u);
    EXPECT_EQ(ask(url, "POST /metrics HTTP/1.1\r\n\r\n").rfind("HTTP/1.1 405", 0), 0u);
    EXPECT_EQ(ask(url, std::string(20'000, 'x')), "");  // Nobody's request.
  }
  EXPECT_EQ(read_file(options.file).value(), "trireme_x{} 1\n");
  EXPECT_TRUE(remove_tree(folder).is_ok());
  MetricsOptions nonsense;
  nonsense.address = "nowhere at all";
  EXPECT_EQ(MetricsExporter::start(nonsense, [] { return std::string(); }).status().code(),
            StatusCode::invalid_argument);
}

}  // namespace
}  // namespace trireme
