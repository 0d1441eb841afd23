// trireme-gpt as a program: what it refuses, that numbers of ranks agree, and that a run
// that is interrupted, resumed or killed ends in the same bytes as one that is not.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "runtime/platform/api/files.h"
#include "tests/numerics/training_run.h"
#include "tests/program.h"

namespace trireme {
namespace {

using test::Outcome;

class Gpt : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = make_temporary_directory("gpt").value();
    std::string text;
    for (int i = 0; i < 2000; ++i) text += "verse " + std::to_string(i * 37 % 500) + ": and it came to pass, ";
    ASSERT_TRUE(write_file_atomically(path("text"), text).is_ok());
  }
  void TearDown() override { EXPECT_TRUE(remove_tree(folder_).is_ok()); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  // A run small enough for a test.
  std::vector<std::string> small(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {"--data", path("text"), "--layers", "2",  "--dim",  "16", "--heads",   "2",
                                          "--seq",  "16",         "--batch",  "12", "--seed", "1",  "--threads", "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  Outcome gpt(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), test::built_program("trireme-gpt"));
    return test::run(arguments);
  }
  std::vector<std::string> launch(int ranks, const std::vector<std::string>& launcher_options,
                                  const std::vector<std::string>& arguments) const {
    std::vector<std::string> all = {test::built_program("trireme"), "run", "-n", std::to_string(ranks),
                                    "--oversubscribe"};
    all.insert(all.end(), launcher_options.begin(), launcher_options.end());
    all.insert(all.end(), {"--", test::built_program("trireme-gpt")});
    all.insert(all.end(), arguments.begin(), arguments.end());
    return all;
  }
  Outcome gpt_ranks(int ranks, const std::vector<std::string>& arguments) const {
    return test::run(launch(ranks, {}, arguments));
  }
  void expect_refused(const std::vector<std::string>& arguments, const std::string& words) const {
    const Outcome outcome = gpt(arguments);
    EXPECT_EQ(2, outcome.code) << outcome.output;
    EXPECT_NE(std::string::npos, outcome.output.find(words)) << "expected: " << words << "\n" << outcome.output;
  }

  std::string folder_;
};

TEST_F(Gpt, RefusesBadInputWithExitCode2) {
  expect_refused({"--data", path("nothing")}, path("nothing") + " does not exist");
  ASSERT_TRUE(write_file_atomically(path("brief"), "too short").is_ok());
  expect_refused({"--data", path("brief")}, "the data holds 9 bytes");
  expect_refused(small({"--dp", "2"}), "start 2 ranks");
  expect_refused(small({"--heads", "3"}), "3 heads do not divide dim 16");
  expect_refused(small({"--no-such-flag"}), "--no-such-flag");
  expect_refused(small({"--metrics", path("no/such/folder/m.jsonl")}), "no/such/folder");
}

TEST_F(Gpt, RefusesCheckpointsItCannotUse) {
  expect_refused(small({"--steps", "1", "--checkpoint-dir", path("text")}), path("text"));
  expect_refused(small({"--steps", "1", "--checkpoint-dir", path("c"), "--resume", path("c/step-00000009")}),
                 "step-00000009");
  ASSERT_EQ(0, gpt(small({"--steps", "2", "--checkpoint-dir", path("c")})).code);
  expect_refused(small({"--steps", "3", "--checkpoint-dir", path("c"), "--dim", "32"}), "--dim 16");
  expect_refused(small({"--steps", "3", "--checkpoint-dir", path("c"), "--seed", "2"}), "--seed 1");
}

TEST_F(Gpt, HelpAndConfig) {
  const Outcome help = gpt({"--help"});
  EXPECT_EQ(0, help.code);
  EXPECT_NE(std::string::npos, help.output.find("--checkpoint-every"));
  const Outcome config = gpt(small({"--show-config"}));
  EXPECT_EQ(0, config.code);
  EXPECT_NE(std::string::npos, config.output.find("dim=16")) << config.output;
}

TEST_F(Gpt, TrainsEvaluatesAndWritesASummary) {
  const Outcome outcome = gpt(small({"--steps", "30", "--eval-every", "10", "--eval-batches", "1", "--generate", "20",
                                     "--metrics", path("m.jsonl"), "--json", path("summary.json")}));
  ASSERT_EQ(0, outcome.code) << outcome.output;
  EXPECT_EQ(30u, test::losses(path("m.jsonl")).size());
  EXPECT_NE(std::string::npos, outcome.output.find("step 20: held-out loss"));
  EXPECT_NE(std::string::npos, outcome.output.find("unigram entropy of the text"));
  const std::string summary = read_file(path("summary.json")).value();
  EXPECT_NE(std::string::npos, summary.find("\"held_out_loss\"")) << summary;
  const std::string events = read_file(path("events.jsonl")).value();
  for (const char* event : {"\"start\"", "\"evaluation\"", "\"end\""}) EXPECT_NE(std::string::npos, events.find(event));
}

TEST_F(Gpt, NumbersOfRanksAgree) {
  const std::vector<std::string> common = {"--steps", "100", "--metrics", path("m.jsonl")};
  ASSERT_EQ(0, gpt(small(common)).code);
  const std::vector<double> one = test::losses(path("m.jsonl"));
  ASSERT_EQ(100u, one.size());
  for (int ranks : {2, 3, 4}) {
    const Outcome outcome = gpt_ranks(ranks, small(common));
    ASSERT_EQ(0, outcome.code) << outcome.output;
    const std::vector<double> many = test::losses(path("m.jsonl"));
    ASSERT_EQ(100u, many.size());
    EXPECT_NEAR(one.front(), many.front(), 1e-6 * one.front()) << ranks;
    EXPECT_NEAR(one.back(), many.back(), 1e-4) << ranks;
  }
}

TEST_F(Gpt, SameLayoutSameBytes) {
  std::vector<std::vector<std::string>> runs;
  for (const char* name : {"a.jsonl", "b.jsonl"}) {
    ASSERT_EQ(0, gpt_ranks(3, small({"--steps", "20", "--metrics", path(name)})).code);
    runs.push_back(test::loss_columns(path(name)));
  }
  ASSERT_EQ(20u, runs[0].size());
  EXPECT_EQ(runs[0], runs[1]);
}

TEST_F(Gpt, ResumedEqualsUninterrupted) {
  const std::vector<std::string> common = {"--steps",           "24",      "--metrics",          path("m.jsonl"),
                                           "--checkpoint-dir",  path("c"), "--checkpoint-every", "8",
                                           "--checkpoint-keep", "9"};
  const Outcome whole = gpt_ranks(2, small(common));
  ASSERT_EQ(0, whole.code) << whole.output;
  const std::vector<std::string> expected = test::loss_columns(path("m.jsonl"));
  ASSERT_EQ(24u, expected.size());
  const std::vector<std::string> names = list_directory(path("c")).value();
  std::vector<std::string> checkpoints;
  for (const std::string& name : names) {
    if (name.rfind("step-", 0) == 0) checkpoints.push_back(name);
  }
  ASSERT_EQ((std::vector<std::string>{"step-00000008", "step-00000016", "step-00000024"}), checkpoints);
  ASSERT_TRUE(remove_tree(path("c/step-00000024")).is_ok());
  ASSERT_TRUE(remove_tree(path("c/step-00000016")).is_ok());
  const Outcome resumed = gpt_ranks(2, small(common));
  ASSERT_EQ(0, resumed.code) << resumed.output;
  EXPECT_NE(std::string::npos, resumed.output.find("at step 8")) << resumed.output;
  EXPECT_EQ(expected, test::loss_columns(path("m.jsonl")));
}

TEST_F(Gpt, AnotherNumberOfRanksResumesTheSameData) {
  const std::vector<std::string> common = {"--steps",           "20",      "--metrics",          path("m.jsonl"),
                                           "--checkpoint-dir",  path("c"), "--checkpoint-every", "10",
                                           "--checkpoint-keep", "9"};
  ASSERT_EQ(0, gpt_ranks(4, small(common)).code);
  const std::vector<double> expected = test::losses(path("m.jsonl"));
  for (int ranks : {1, 3}) {
    ASSERT_TRUE(remove_tree(path("c/step-00000020")).is_ok());
    const Outcome outcome = gpt_ranks(ranks, small(common));
    ASSERT_EQ(0, outcome.code) << outcome.output;
    const std::vector<double> resumed = test::losses(path("m.jsonl"));
    ASSERT_EQ(20u, resumed.size());
    for (std::size_t i = 0; i < 20; ++i) EXPECT_NEAR(expected[i], resumed[i], 1e-5);
  }
}

TEST_F(Gpt, KilledRankRecoversToTheSameBytes) {
  const auto arguments = [&](const std::string& run) {
    return small({"--steps", "300", "--metrics", path(run + ".jsonl"), "--checkpoint-dir", path(run),
                  "--checkpoint-every", "25"});
  };
  ASSERT_EQ(0, gpt_ranks(3, arguments("calm")).code);
  test::Program program(launch(3, {"--max-restarts", "3"}, arguments("killed")));
  bool killed = false;
  while (!killed && program.running()) {
    const std::size_t steps = test::loss_columns(path("killed.jsonl")).size();
    const std::int64_t victim = steps < 60 ? -1 : test::process_of_rank(path("killed.jsonl"), 2);
    killed = victim > 0 && kill(static_cast<pid_t>(victim), SIGKILL) == 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // Polls a file; nothing depends on it.
  }
  const Outcome outcome = program.wait();
  ASSERT_TRUE(killed) << "the run ended before a rank could be killed\n" << outcome.output;
  ASSERT_EQ(0, outcome.code) << outcome.output;
  EXPECT_NE(std::string::npos, outcome.output.find("resumed from")) << outcome.output;
  const std::vector<std::string> expected = test::loss_columns(path("calm.jsonl"));
  ASSERT_EQ(300u, expected.size());
  EXPECT_EQ(expected, test::loss_columns(path("killed.jsonl")));
}

}  // namespace
}  // namespace trireme
