// The launcher: what it says of a death, and how long it waits for a rank that saves its work.
#include <csignal>

#include "tests/regressions/regression_test.h"

namespace trireme::testing {
namespace {

using Launcher = RegressionTest;

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// "rank 1 (host, pid 7) died: signal 9 (SIGKILL)": who, once, and how, once.
TEST_F(Launcher, ADeathIsToldOnce) {
  const RunResult result = trireme(job({"-n", "3", "--grace", "5"}, {"lost_before_first_message"}));
  const std::vector<std::string> stories = lines_with(result, "failed:");
  EXPECT_EQ(stories.size(), 2U) << result.out;
  for (const std::string& story : stories) {
    EXPECT_EQ(occurrences(story, "rank 1"), 1U) << story;
    EXPECT_EQ(occurrences(story, "pid "), 1U) << story;
    EXPECT_EQ(occurrences(story, "signal 9 (SIGKILL)"), 1U) << story;
  }
}

// A rank that needs a while after SIGTERM has it, up to --grace and no longer.
class Grace : public RegressionTest {
 protected:
  RunResult stop_a_saving_rank(const std::string& grace, const std::string& saving_s) {
    Running running = start({"run", "--oversubscribe", "-n", "2", "--grace", grace, "--", "sh", "-c",
                             "trap 'sleep " + saving_s + "; echo saved; exit 0' TERM; echo up >> " +
                                 file("up." + grace) + "; while :; do sleep 0.05; done"});
    wait_for_lines("up." + grace, 2);
    EXPECT_TRUE(running.process.send_signal(SIGTERM).is_ok());
    return finish(running);
  }
};

TEST_F(Grace, Pytorch119856_ASlowHandlerCompletesWithinTheGrace) {
  const RunResult result = stop_a_saving_rank("60", "1.5");
  EXPECT_EQ(lines_with(result, "saved").size(), 2U) << result.out << result.err;
  EXPECT_EQ(result.code, 0) << result.err;
}

TEST_F(Grace, Pytorch119856_AHandlerSlowerThanTheGraceIsKilled) {
  const RunResult result = stop_a_saving_rank("0.4", "500");
  EXPECT_EQ(lines_with(result, "saved").size(), 0U) << result.out;
  EXPECT_EQ(result.code, 128 + SIGTERM) << result.err;
}

// One rank that leaves with an error ends the job, and is named.
TEST_F(Launcher, Pytorch146371_AWorkerThatExitsWithOneEndsTheOthers) {
  Running running = start(
      {"run", "--oversubscribe", "-n", "3", "--grace", "0.2", "--", "sh", "-c",
       "echo $$ >> " + file("pids") + "; if [ $TRIREME_RANK = 1 ]; then exit 1; fi; while :; do sleep 0.05; done"});
  const RunResult result = finish(running);
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("rank 1 (host "), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("failed first: exit code 1"), std::string::npos) << result.err;
  expect_gone("pids");
}

}  // namespace
}  // namespace trireme::testing
