// Failures within the budget start all ranks again, with the next attempt and epoch.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/platform/api/files.h"
#include "tests/launcher/launch_fixture.h"

namespace trireme::testing {
namespace {

using Restart = LaunchTest;

std::vector<std::string> sorted_lines(const std::string& path) {
  std::vector<std::string> lines = lines_of(read_file(path).value());
  std::sort(lines.begin(), lines.end());
  return lines;
}

TEST_F(Restart, GoesOnUntilAnAttemptSucceeds) {
  const RunResult result =
      run({"-n", "2", "--max-restarts", "3", "--grace", "0.1"}, {"attempts", file("log"), "4", "137", "0"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(sorted_lines(file("log")),
            (std::vector<std::string>{"0 0 1", "0 1 2", "0 2 3", "1 0 1", "1 1 2", "1 2 3"}));
  EXPECT_NE(result.err.find("attempt 1, epoch 2 (restart 1 of 3)"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("attempt 2, epoch 3 (restart 2 of 3)"), std::string::npos) << result.err;
}

TEST_F(Restart, BudgetEnds) {
  const RunResult result =
      run({"-n", "2", "--max-restarts", "1", "--grace", "0.1"}, {"attempts", file("log"), "4", "5", "0"});
  EXPECT_EQ(result.code, 5);
  EXPECT_EQ(sorted_lines(file("log")).size(), 4U);
}

TEST_F(Restart, UsageErrorsAreNotRepeated) {
  const RunResult result =
      run({"-n", "2", "--max-restarts", "3", "--grace", "0.1"}, {"attempts", file("log"), "2", "0"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(sorted_lines(file("log")).size(), 2U);
}

TEST_F(Restart, FilesAndRecordsKeepAttemptsApart) {
  const RunResult result = run(
      {"-n", "2", "--max-restarts", "1", "--grace", "0.1", "--output-dir", file("logs"), "--json", file("record.json")},
      {"attempts", file("log"), "4", "0"});
  EXPECT_EQ(result.code, 0) << result.err;
  for (const char* name : {"rank-0.out", "rank-1.err", "rank-0.attempt-1.out", "rank-1.attempt-1.err", "merged.log"}) {
    EXPECT_TRUE(file_info(file("logs/") + name)->exists) << name;
  }
  const auto first = nlohmann::json::parse(read_file(file("logs/attempt-0.json")).value());
  EXPECT_EQ(first["ranks"][1]["exit_code"], 4);
  EXPECT_EQ(first["epoch"], 1);
  const auto record = nlohmann::json::parse(read_file(file("record.json")).value());
  EXPECT_EQ(record["outcome"], "succeeded");
  EXPECT_EQ(record["restarts"], 1);
  EXPECT_EQ(record["attempts"].size(), 2U);
  EXPECT_EQ(record["attempts"][0]["first_failure"], 1);
  EXPECT_EQ(record["attempts"][1]["ranks"][0]["exit_code"], 0);
}

}  // namespace
}  // namespace trireme::testing
