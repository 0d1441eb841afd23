#include "launcher/coordinator/report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace trireme {
namespace {

JobRecord failed_job() {
  JobRecord record;
  record.outcome = Outcome::failed;
  record.exit_code = 139;
  AttemptRecord attempt;
  attempt.first_failure = 3;
  attempt.ranks.resize(7);
  for (RankRecord& rank : attempt.ranks) {
    rank.state = RankRecord::State::ended;
    rank.exit.code = 1;
  }
  RankRecord& culprit = attempt.ranks[3];
  culprit.pid = 4711;
  culprit.exit.signaled = true;
  culprit.exit.signal = 11;
  culprit.exit.core_dumped = true;
  culprit.last_lines = {"going well", "\xff not utf-8"};
  attempt.ranks[5].exit.code = 0;
  record.attempts.push_back(attempt);
  return record;
}

JobSpec job() {
  JobSpec spec;
  spec.job_id = "j1";
  spec.host = "node1";
  spec.program = "./train";
  spec.world_size = 7;
  return spec;
}

TEST(Report, NamesTheCulpritItsLastLinesAndTheOthers) {
  const std::string text = failure_summary(failed_job(), job());
  for (const char* part :
       {"rank 3 (host node1, pid 4711) failed first: signal 11 (SIGSEGV, core dumped)", "| going well",
        "ranks 0-2, 4, 6: exit code 1", "rank 5: exit code 0", "exit code 139", "core_pattern"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  }
}

TEST(Report, SuccessNeedsNoWords) {
  JobRecord record = failed_job();
  record.outcome = Outcome::succeeded;
  EXPECT_EQ(failure_summary(record, job()), "");
}

TEST(Report, TheRecordIsJsonWhateverRanksWrote) {
  const auto json = nlohmann::json::parse(record_as_json(failed_job(), job()));
  EXPECT_EQ(json["exit_code"], 139);
  EXPECT_EQ(json["attempts"][0]["first_failure"], 3);
  EXPECT_EQ(json["attempts"][0]["ranks"][3]["signal"], 11);
  EXPECT_TRUE(json["attempts"][0]["ranks"][0]["signal"].is_null());
  EXPECT_EQ(json["attempts"][0]["last_lines"].size(), 2U);
}

}  // namespace
}  // namespace trireme
