// Looking into running and failed jobs: trireme ranks, verdicts, recorders, traces.
#include <unistd.h>

#include <csignal>
#include <functional>
#include <set>

#include <nlohmann/json.hpp>

#include <trireme/platform/clock.h>

#include "runtime/platform/api/files.h"
#include "runtime/telemetry/api/recording.h"
#include "tests/launcher/launch_fixture.h"

namespace trireme::testing {
namespace {

using Json = nlohmann::json;

constexpr int kRanks = 4;
constexpr std::uint64_t kPatienceMs = 60'000;

class Inside : public LaunchTest {
 protected:
  void TearDown() override {
    // Nothing of it is left, whatever happened.
    if (file_info(file("pids"))->exists) expect_gone("pids");
    LaunchTest::TearDown();
  }

  Running start_job(const std::string& mode, int timeout_ms = 60'000) {
    return start({"run", "--oversubscribe", "-n", std::to_string(kRanks), "--output-dir", file("out"), "--json",
                  file("record"), "--grace", "2", "--", TRIREME_BINARY_DIR "/tests/test_inside_rank", mode, folder_},
                 "",
                 {"TRIREME_TIMEOUT_MS=" + std::to_string(timeout_ms), "TRIREME_METRICS_FILE=" + file("metrics.prom"),
                  "TRIREME_METRICS_PORT=127.0.0.1:0"});
  }
  void touch(const std::string& name) { ASSERT_TRUE(write_file_atomically(file(name), "").is_ok()); }
  void signal_rank(const Json& job, int rank, int signal) {
    ASSERT_EQ(::kill(job["ranks"][static_cast<std::size_t>(rank)]["pid"].get<pid_t>(), signal), 0);
  }
  // `trireme ranks` until what it shows of the job is as wanted.
  Json look_until(const std::string& which, int code, const std::function<bool(const Json&)>& wanted,
                  const std::string& patience = "0.3") {
    const Deadline deadline = Deadline::after_ms(kPatienceMs);
    RunResult result;
    while (!deadline.expired()) {
      result = trireme({"ranks", which, "--json", "--patience", patience});
      const Json json = Json::parse(result.out, nullptr, false);
      if (result.code == code && !json.is_discarded() && wanted(json["jobs"][0])) return json["jobs"][0];
      system_clock().sleep_ns(20'000'000);
    }
    ADD_FAILURE() << "trireme ranks says (" << result.code << ")\n" << result.out << result.err;
    return {};
  }
  static bool blames(const Json& job, const std::string& kind, const std::vector<int>& ranks) {
    return job["verdict"].size() == 1 && job["verdict"][0]["kind"] == kind && job["verdict"][0]["ranks"] == ranks;
  }
  static bool all_joined(const Json& job) {
    if (job["ranks"].size() != kRanks) return false;
    for (const Json& rank : job["ranks"]) {
      if (rank["calls"].empty()) return false;
    }
    return true;
  }
  void expect_verdict(const RunResult& result, const std::vector<std::string>& parts) {
    for (const std::string& part : parts) {
      EXPECT_NE(result.err.find(part), std::string::npos) << part << "\nis missing in\n" << result.err;
    }
  }
};

TEST_F(Inside, AHealthyJobIsShownAndWell) {
  Running job = start_job("run");
  wait_for_lines("pids", kRanks);
  const Json seen = look_until(std::to_string(job.process.pid()), 0, all_joined);
  ASSERT_FALSE(seen.is_null());
  EXPECT_EQ(seen["size"], kRanks);
  EXPECT_TRUE(seen["well"]);
  for (int r = 0; r < kRanks; ++r) {
    const Json& rank = seen["ranks"][static_cast<std::size_t>(r)];
    EXPECT_EQ(rank["rank"], r);
    EXPECT_EQ(rank["calls"][0]["size"], kRanks);
  }
  const RunResult table = trireme({"ranks", seen["job_id"].get<std::string>()});
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_NE(table.out.find("all_reduce(count="), std::string::npos) << table.out;
  EXPECT_NE(table.out.find("verdict: all is well"), std::string::npos) << table.out;
  const RunResult metrics = trireme({"ranks", seen["job_id"].get<std::string>(), "--metrics"});
  EXPECT_NE(metrics.out.find("trireme_call_duration_seconds_count{trireme_job=\"" + seen["job_id"].get<std::string>() +
                             "\",rank=\"3\",op=\"all_reduce\""),
            std::string::npos)
      << metrics.out;
  const RunResult trace = trireme({"trace", seen["job_id"].get<std::string>(), "-o", "-"});
  EXPECT_EQ(trace.code, 0) << trace.err;
  EXPECT_FALSE(Json::parse(trace.out, nullptr, false).is_discarded());
  touch("stop");
  const RunResult result = finish(job);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err.find("verdict"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("metrics at http://127.0.0.1:"), std::string::npos) << result.err;
  // What the shim wrote last is of the whole run, of ranks that have left.
  const std::string exported = read_file(file("metrics.prom")).value();
  for (const char* rank : {"0", "1", "2", "3"}) {
    EXPECT_NE(exported.find("\",rank=\"" + std::string(rank) + "\",op=\"all_reduce\""), std::string::npos) << exported;
  }
  EXPECT_FALSE(file_info(file("out/recorder-rank-0.json"))->exists) << "nothing went wrong";
  EXPECT_EQ(trireme({"ranks", seen["job_id"].get<std::string>()}).code, 2);
}

TEST_F(Inside, AStoppedRankIsNamedWhileItIsStoppedAndAtTheDeadline) {
  Running job = start_job("run", 4000);
  wait_for_lines("pids", kRanks);
  const Json before = look_until(std::to_string(job.process.pid()), 0, all_joined);
  signal_rank(before, 2, SIGSTOP);
  const Json seen = look_until(before["job_id"], 1, [](const Json& j) { return blames(j, "stopped", {2}); });
  ASSERT_FALSE(seen.is_null());
  EXPECT_EQ(seen["ranks"][2]["state"], "T");
  const RunResult result = finish(job);
  EXPECT_EQ(result.code, 1) << result.err;
  expect_verdict(result, {"trireme: verdict: rank 2 (", " is stopped (state T)", "last call finished: "});
  const Json record = Json::parse(read_file(file("record")).value());
  EXPECT_EQ(record["attempts"][0]["verdict"][0]["ranks"], Json({2})) << record.dump(1) << result.err;
}

TEST_F(Inside, AKilledRankLeavesItsRecorder) {
  Running job = start_job("run");
  wait_for_lines("pids", kRanks);
  const Json before = look_until(std::to_string(job.process.pid()), 0, all_joined);
  signal_rank(before, 1, SIGKILL);
  const RunResult result = finish(job);
  EXPECT_EQ(result.code, 128 + SIGKILL) << result.err;
  expect_verdict(result, {"trireme: verdict: rank 1 (", "ended by itself: signal 9 (SIGKILL)",
                          "flight recorders: " + file("out/recorder-rank-*.json")});
  std::vector<std::string> trace = {"trace", "-o", file("trace.json")};
  for (int r = 0; r < kRanks; ++r) {
    const std::string path = file("out/recorder-rank-" + std::to_string(r) + ".json");
    const Result<Recording> recording = recording_from_json(read_file(path).value());
    ASSERT_TRUE(recording.is_ok()) << recording.status().to_string();
    EXPECT_EQ(recording->identity.rank, r);
    EXPECT_EQ(recording->failure.has_value(), r != 1);
    ASSERT_EQ(recording->communicators.size(), 1u);
    const RecordedCommunicator& communicator = recording->communicators[0];
    EXPECT_GT(communicator.done_sequence, 0u);
    const RecordedCall* last = communicator.last_collective();
    ASSERT_NE(last, nullptr);
    // The dead rank's last call is as the kill left it. The others' were ended by it, or
    // had just been done when the news came.
    if (r != 1) {
      EXPECT_TRUE(last->state == CallState::failed || last->state == CallState::done) << static_cast<int>(last->state);
    }
    trace.push_back(path);
  }
  const RunResult traced = trireme(trace);
  EXPECT_EQ(traced.code, 0) << traced.err;
  const Json events = Json::parse(read_file(file("trace.json")).value());
  std::set<int> ranks;
  for (const Json& event : events["traceEvents"]) {
    if (event["ph"] == "X") ranks.insert(event["pid"].get<int>());
  }
  EXPECT_EQ(ranks, (std::set<int>{0, 1, 2, 3}));
}

TEST_F(Inside, DifferentCallsAreShownSideBySide) {
  Running job = start_job("differ");
  const RunResult result = finish(job);
  EXPECT_EQ(result.code, 1) << result.err;
  // A rank that heard of it before its own 52nd call is on neither side.
  expect_verdict(result, {"trireme: verdict: ranks disagree on the 52nd call of communicator ",
                          ": all_reduce(count=1000, f32, max)", "rank 1: broadcast(count=1000, f32, root=0)"});
}

TEST_F(Inside, ACrashIsTheRanksOwn) {
  Running job = start_job("crash");
  const RunResult result = finish(job);
  EXPECT_EQ(result.code, 3) << result.err;
  expect_verdict(result, {"trireme: verdict: rank 1 (", "ended by itself: exit code 3"});
}

TEST_F(Inside, ALateRankIsMissedUntilItComes) {
  Running job = start_job("late");
  wait_for_lines("pids", kRanks);
  const Json seen =
      look_until(std::to_string(job.process.pid()), 1, [](const Json& j) { return blames(j, "missing", {3}); });
  ASSERT_FALSE(seen.is_null());
  const auto text = seen["verdict"][0]["text"].get<std::string>();
  EXPECT_NE(text.find("has not entered all_reduce(count=1000, f32, max), the 52nd call"), std::string::npos) << text;
  EXPECT_NE(text.find("ranks 0-2 have waited"), std::string::npos) << text;
  const RunResult table = trireme({"ranks", seen["job_id"].get<std::string>(), "--patience", "0.1"});
  EXPECT_EQ(table.code, 1);
  EXPECT_NE(table.out.find("in #52 all_reduce(count=1000, f32, max)"), std::string::npos) << table.out;
  EXPECT_NE(table.out.find("after #51 all_reduce(count=1000, f32, max)"), std::string::npos) << table.out;
  touch("go");
  EXPECT_EQ(finish(job).code, 0);
}

TEST_F(Inside, StoppingAHungJobSaysWhyItHung) {
  Running job = start_job("late");
  wait_for_lines("pids", kRanks);
  look_until(
      std::to_string(job.process.pid()), 1, [](const Json& j) { return blames(j, "missing", {3}); }, "1.2");
  ASSERT_TRUE(job.process.send_signal(SIGINT).is_ok());
  const RunResult result = finish(job);
  EXPECT_EQ(result.code, 128 + SIGINT) << result.err;
  expect_verdict(result, {"trireme: verdict: rank 3 (", "has not entered all_reduce"});
}

// Ranks that no shim of ours started keep their recorders themselves.
TEST_F(Inside, RanksOfOtherLaunchersAreFoundAndDumpTheirRecorders) {
  std::vector<Running> ranks;
  const std::string port = std::to_string(20'000 + ::getpid() % 10'000);
  for (int r = 0; r < 2; ++r) {
    SpawnOptions options;
    options.program = TRIREME_BINARY_DIR "/tests/test_inside_rank";
    options.arguments = {"run", folder_};
    options.environment = {"RANK=" + std::to_string(r),
                           "WORLD_SIZE=2",
                           "MASTER_ADDR=127.0.0.1",
                           "MASTER_PORT=" + port,
                           "TRIREME_RECORDER_DIR=" + file("dumps"),
                           "TRIREME_METRICS_FILE=" + file("metrics.prom")};
    Result<ChildProcess> process = ChildProcess::spawn(options);
    ASSERT_TRUE(process.is_ok()) << process.status().to_string();
    ranks.emplace_back();
    ranks.back().process = std::move(*process);
  }
  wait_for_lines("pids", 2);
  const auto both = [](const Json& job) { return job["ranks"].size() == 2 && !job["ranks"][1]["calls"].empty(); };
  const Json seen = look_until(std::to_string(ranks[1].process.pid()), 0, both);
  ASSERT_FALSE(seen.is_null());
  EXPECT_EQ(seen["ranks"][1]["pid"], ranks[1].process.pid());
  ASSERT_TRUE(ranks[1].process.send_signal(SIGKILL).is_ok());
  const Result<ExitState> first = ranks[0].process.wait(Deadline::after_ms(kPatienceMs));
  ASSERT_TRUE(first.is_ok());
  EXPECT_EQ(first->shell_code(), 1);
  EXPECT_TRUE(ranks[1].process.wait(Deadline::after_ms(kPatienceMs)).is_ok());
  const std::string metrics = read_file(file("metrics-rank-0.prom")).value();
  EXPECT_NE(metrics.find("trireme_failures_total{"), std::string::npos) << metrics;
  const auto dumps = list_directory(file("dumps"));
  ASSERT_TRUE(dumps.is_ok());
  ASSERT_EQ(dumps->size(), 1u);
  const auto recording = recording_from_json(read_file(file("dumps/" + (*dumps)[0])).value());
  ASSERT_TRUE(recording.is_ok()) << recording.status().to_string();
  EXPECT_EQ(recording->failure->culprit, 1);
}

TEST_F(Inside, WrongUse) {
  EXPECT_EQ(trireme({"ranks", "no-such-job"}).code, 2);
  EXPECT_EQ(trireme({"ranks", "--nonsense"}).code, 2);
  EXPECT_EQ(trireme({"ranks", "--help"}).code, 0);
  EXPECT_EQ(trireme({"trace", "no-such-job", "-o", "-"}).code, 2);
  EXPECT_EQ(trireme({"trace", TRIREME_BINARY_DIR "/CMakeCache.txt", "-o", "-"}).code, 2);
  EXPECT_EQ(trireme({"trace"}).code, 2);
}

}  // namespace
}  // namespace trireme::testing
