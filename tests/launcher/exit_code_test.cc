// The launcher's exit code is that of the first rank to fail, and the report names it.
#include <csignal>

#include "tests/launcher/launch_fixture.h"

namespace trireme::testing {
namespace {

using ExitCode = LaunchTest;

TEST_F(ExitCode, ZeroWhenAllSucceed) {
  const RunResult result = run({"-n", "3"}, {"exit", "0"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
}

TEST_F(ExitCode, OfTheOnlyRankThatFails) {
  for (const int code : {1, 3, 137}) {
    const RunResult result = run({"-n", "3", "--grace", "0.1"}, {"exit", std::to_string(code), "1"});
    EXPECT_EQ(result.code, code);
    EXPECT_NE(result.err.find("rank 1 (host "), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("failed first: exit code " + std::to_string(code)), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("ranks 0, 2: ended by the launcher, signal 15 (SIGTERM)"), std::string::npos)
        << result.err;
  }
}

TEST_F(ExitCode, OfASignalIs128AndItsNumber) {
  for (const int signal : {SIGKILL, SIGSEGV}) {
    const RunResult result = run({"-n", "2", "--grace", "0.1"}, {"raise", std::to_string(signal), "1"});
    EXPECT_EQ(result.code, 128 + signal);
    EXPECT_NE(result.err.find(signal_name(signal)), std::string::npos) << result.err;
  }
}

TEST_F(ExitCode, YieldPassesThroughWithoutAReport) {
  const RunResult result = run({"-n", "2", "--max-restarts", "3"}, {"exit", "75"});
  EXPECT_EQ(result.code, 75);
  EXPECT_EQ(result.err, "");
}

TEST_F(ExitCode, TimeoutIs124AndLeavesNothing) {
  const RunResult result = run({"-n", "2", "--timeout", "0.5", "--grace", "0.2"}, {"detach", file("pids"), "-1"});
  EXPECT_EQ(result.code, 124);
  EXPECT_NE(result.err.find("--timeout"), std::string::npos) << result.err;
  expect_gone("pids");
}

TEST_F(ExitCode, ProgramsOfOthersRunToo) {
  const RunResult result =
      trireme({"run", "--oversubscribe", "-n", "2", "sh", "-c", "echo $TRIREME_RANK/$TRIREME_WORLD_SIZE"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find(":0 0/2\n"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find(":1 1/2\n"), std::string::npos) << result.out;
}

}  // namespace
}  // namespace trireme::testing
