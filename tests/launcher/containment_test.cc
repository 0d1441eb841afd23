// Whatever ranks start and however it detaches itself, nothing of it survives the job.
#include <csignal>

#include <set>

#include "runtime/platform/api/files.h"
#include "tests/launcher/launch_fixture.h"

namespace trireme::testing {
namespace {

using Containment = LaunchTest;

// Each rank of `detach` writes 4 pids: itself and three processes it leaves.
constexpr std::size_t kPidsPerRank = 4;

TEST_F(Containment, DetachedProcessesEndWithAJobThatSucceeds) {
  EXPECT_EQ(run({"-n", "2", "--grace", "0.2"}, {"detach", file("pids"), "0"}).code, 0);
  EXPECT_EQ(wait_for_lines("pids", 2 * kPidsPerRank).size(), 2 * kPidsPerRank);
  expect_gone("pids");
}

TEST_F(Containment, DetachedProcessesEndWithAJobThatFails) {
  EXPECT_EQ(run({"-n", "2", "--grace", "0.2"}, {"detach", file("pids"), "5"}).code, 5);
  expect_gone("pids");
}

TEST_F(Containment, KilledLauncherLeavesNothing) {
  Running running = start(command({"-n", "2"}, {"detach", file("pids"), "-1"}));
  wait_for_lines("pids", 2 * kPidsPerRank);
  ASSERT_TRUE(running.process.send_signal(SIGKILL).is_ok());
  EXPECT_EQ(finish(running).code, 128 + SIGKILL);
  expect_gone("pids");
}

std::int64_t parent_of(std::int64_t pid) {
  const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat").value();
  return std::stoll(stat.substr(stat.rfind(") ") + 4));
}

TEST_F(Containment, KilledShimLeavesNothingAndIsReported) {
  Running running = start(command({"-n", "1"}, {"detach", file("pids"), "-1"}));
  const std::vector<std::string> pids = wait_for_lines("pids", kPidsPerRank);
  std::set<std::int64_t> parents;
  for (const std::string& pid : pids) parents.insert(parent_of(std::stoll(pid)));
  const std::int64_t shim = *parents.begin();  // The rank's parent, started before the rank.
  ASSERT_EQ(parent_of(shim), running.process.pid());
  ASSERT_EQ(::kill(static_cast<pid_t>(shim), SIGKILL), 0);
  const RunResult result = finish(running);
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("shim on this host ended unexpectedly"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("rank 0: running when last heard of"), std::string::npos) << result.err;
  expect_gone("pids");
}

TEST_F(Containment, RankThatIgnoresTermIsKilledAfterTheGrace) {
  Running running = start(command({"-n", "2", "--grace", "0.3"}, {"signals", file("signals")}));
  wait_for_lines("signals.pids", 4);
  ASSERT_TRUE(running.process.send_signal(SIGTERM).is_ok());
  EXPECT_EQ(finish(running).code, 128 + SIGTERM);
  EXPECT_EQ(wait_for_lines("signals", 2).size(), 2U) << "SIGTERM comes first, once to each rank";
  expect_gone("signals.pids");
}

TEST_F(Containment, StoppedRankEndsToo) {
  Running running = start(command({"-n", "1", "--grace", "600"}, {"hold", file("pids")}));
  const std::int64_t rank = std::stoll(wait_for_lines("pids", 1).at(0));
  ASSERT_EQ(::kill(static_cast<pid_t>(rank), SIGSTOP), 0);
  ASSERT_TRUE(running.process.send_signal(SIGTERM).is_ok());
  EXPECT_EQ(finish(running).code, 128 + SIGTERM);  // Continued, so that the signal acts: no wait for the grace.
}

TEST_F(Containment, TwoJobsAtOnceDoNotMeet) {
  Running first = start(command({"-n", "3"}, {"world", "1"}));
  Running second = start(command({"-n", "2"}, {"exit", "0"}));
  EXPECT_EQ(finish(second).code, 0);
  EXPECT_EQ(finish(first).code, 128 + SIGKILL);
}

}  // namespace
}  // namespace trireme::testing
