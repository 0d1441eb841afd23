// Ranks that use World: a death is known to all by name, and a restart meets in a new epoch.
#include <csignal>

#include "tests/launcher/launch_fixture.h"

namespace trireme::testing {
namespace {

using LaunchedWorld = LaunchTest;

TEST_F(LaunchedWorld, EverySurvivorNamesTheDeadRank) {
  const RunResult result = run({"-n", "3"}, {"world", "1"});
  EXPECT_EQ(result.code, 128 + SIGKILL) << result.err;
  int named = 0;
  for (const std::string& line : lines_of(result.err)) {
    const bool seen = line.find("seen: ") != std::string::npos && line.rfind("trireme:", 0) != 0;
    if (!seen) continue;
    EXPECT_NE(line.find("rank 1"), std::string::npos) << line;
    EXPECT_NE(line.find("SIGKILL"), std::string::npos) << line;
    ++named;
  }
  EXPECT_EQ(named, 2) << result.err;
  EXPECT_NE(result.err.find("failed first: signal 9 (SIGKILL)"), std::string::npos) << result.err;
}

TEST_F(LaunchedWorld, RestartedRanksMeetInTheNextEpoch) {
  const RunResult result = run({"-n", "3", "--max-restarts", "1"}, {"world", "1"});
  EXPECT_EQ(result.code, 0) << result.err;
  int met = 0;
  for (const std::string& line : lines_of(result.out)) {
    met += line.find("met 1 1 1 in epoch 2") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(met, 3) << result.out << result.err;
}

TEST_F(LaunchedWorld, EnvironmentTellsEachRankItsPlace) {
  const RunResult result =
      run({"-n", "2", "-x", "TRIREME_TEST_GIVEN=a b=c", "--no-tag"},
          {"environment", "TRIREME_RANK", "TRIREME_WORLD_SIZE", "TRIREME_LOCAL_RANK", "TRIREME_LOCAL_SIZE",
           "TRIREME_NODE_RANK", "TRIREME_ATTEMPT", "TRIREME_EPOCH", "TRIREME_TEST_GIVEN"});
  EXPECT_EQ(result.code, 0) << result.err;
  for (const char* rank : {"0", "1"}) {
    const std::string expected = std::string("TRIREME_RANK=") + rank +
                                 " TRIREME_WORLD_SIZE=2 TRIREME_LOCAL_RANK=" + rank +
                                 " TRIREME_LOCAL_SIZE=2 TRIREME_NODE_RANK=0 TRIREME_ATTEMPT=0 TRIREME_EPOCH=1 "
                                 "TRIREME_TEST_GIVEN=a b=c secret=64\n";
    EXPECT_NE(result.out.find(expected), std::string::npos) << result.out;
  }
}

}  // namespace
}  // namespace trireme::testing
