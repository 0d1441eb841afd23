// Signals sent to the launcher reach every rank once.
#include <csignal>

#include <algorithm>

#include "runtime/platform/api/files.h"
#include "tests/launcher/launch_fixture.h"

namespace trireme::testing {
namespace {

using Signals = LaunchTest;

TEST_F(Signals, UserSignalsReachEachRankOnceAndNotWhatItStarted) {
  Running running = start(command({"-n", "3"}, {"signals", file("signals"), "0"}));
  wait_for_lines("signals.pids", 6);
  std::vector<std::string> expected;
  for (const int signal : {SIGUSR1, SIGUSR2, SIGHUP}) {
    ASSERT_TRUE(running.process.send_signal(signal).is_ok());
    for (int rank = 0; rank < 3; ++rank) expected.push_back(std::to_string(rank) + " " + std::to_string(signal));
    wait_for_lines("signals", expected.size());
  }
  ASSERT_TRUE(running.process.send_signal(SIGTERM).is_ok());
  for (int rank = 0; rank < 3; ++rank) expected.push_back(std::to_string(rank) + " " + std::to_string(SIGTERM));
  EXPECT_EQ(finish(running).code, 0);
  std::vector<std::string> seen = lines_of(read_file(file("signals")).value());
  std::sort(seen.begin(), seen.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(seen, expected);
  // The grandchildren saw only the SIGTERM for what a rank leaves behind.
  const Result<std::string> grandchildren = read_file(file("signals.grandchild"));
  for (const std::string& line : lines_of(grandchildren.is_ok() ? *grandchildren : "")) {
    EXPECT_NE(line.find(" " + std::to_string(SIGTERM)), std::string::npos) << line;
  }
}

TEST_F(Signals, ExitCodeOfARankThatHandlesTheSignalCounts) {
  Running running = start(command({"-n", "2"}, {"signals", file("signals"), "9"}));
  wait_for_lines("signals.pids", 4);
  ASSERT_TRUE(running.process.send_signal(SIGINT).is_ok());
  const RunResult result = finish(running);
  EXPECT_EQ(result.code, 9);
  EXPECT_NE(result.err.find("stopped by SIGINT"), std::string::npos) << result.err;
}

TEST_F(Signals, SecondInterruptKillsAtOnce) {
  Running running = start(command({"-n", "2", "--grace", "600"}, {"signals", file("signals")}));
  wait_for_lines("signals.pids", 4);
  ASSERT_TRUE(running.process.send_signal(SIGINT).is_ok());
  wait_for_lines("signals", 2);
  ASSERT_TRUE(running.process.send_signal(SIGINT).is_ok());
  EXPECT_EQ(finish(running).code, 128 + SIGINT);
  expect_gone("signals.pids");
}

TEST_F(Signals, YieldAfterASignalPassesThrough) {
  Running running = start(command({"-n", "2", "--max-restarts", "5"}, {"signals", file("signals"), "75"}));
  wait_for_lines("signals.pids", 4);
  ASSERT_TRUE(running.process.send_signal(SIGTERM).is_ok());
  EXPECT_EQ(finish(running).code, 75);
}

}  // namespace
}  // namespace trireme::testing
