// Who is to blame, from what ranks say.
#include "collectives/execute/diagnose.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

constexpr std::uint64_t kContext = 10;

Call all_reduce(std::uint64_t sequence, std::uint64_t count = 100) {
  Call call;
  call.kind = CallKind::all_reduce;
  call.type = DataType::f32;
  call.count = count;
  call.sequence = sequence;
  return call;
}

RankActivity in_call(std::uint64_t sequence, std::vector<int> waits, std::uint64_t context = kContext) {
  ContextActivity activity;
  activity.context = context;
  activity.entered = sequence;
  activity.inside = true;
  activity.recent = {all_reduce(sequence)};
  activity.waits_for = std::move(waits);
  return {{activity}};
}

RankActivity busy(std::uint64_t entered) {
  RankActivity activity = in_call(entered, {});
  activity.contexts[0].inside = false;
  return activity;
}

Question question(std::vector<int> waits) {
  Question q;
  q.context = kContext;
  q.members = {0, 1, 2, 3};
  q.self = 0;
  q.call = describe(all_reduce(7));
  q.sequence = 7;
  q.waits_for = std::move(waits);
  q.timeout_ms = 500;
  q.names = {"rank 0 (a, pid 10)", "rank 1 (a, pid 11)", "rank 2 (b, pid 12)", "rank 3 (b, pid 13)"};
  return q;
}

void expect_culprit(const Verdict& verdict, int culprit, const std::string& part) {
  EXPECT_EQ(verdict.status.code(), StatusCode::deadline_exceeded);
  EXPECT_EQ(verdict.culprit, culprit) << verdict.status.to_string();
  EXPECT_NE(verdict.status.message().find(part), std::string::npos) << verdict.status.to_string();
}

TEST(Diagnose, TheStoppedRankNotTheNeighbour) {
  const Activities ring = {in_call(7, {3}), in_call(7, {0}), std::nullopt, in_call(7, {2})};
  const Verdict verdict = find_culprit(question({3}), ring);
  expect_culprit(verdict, 2, "rank 2 (b, pid 12) does not answer");
  EXPECT_NE(verdict.status.message().find("all_reduce(count=100, f32, sum), the 7th call"), std::string::npos)
      << verdict.status.message();
}

TEST(Diagnose, TheRankThatHasNotCome) {
  const Activities late = {in_call(7, {3}), in_call(7, {0}), busy(6), in_call(7, {2})};
  expect_culprit(find_culprit(question({3}), late), 2, "has not entered it: its last collective here was all_reduce");
}

TEST(Diagnose, FollowsOtherCommunicators) {
  // Rank 3 has not come since it waits elsewhere for rank 1, which is stopped.
  RankActivity elsewhere = in_call(3, {1}, 99);
  elsewhere.contexts.push_back(busy(6).contexts[0]);
  const Activities crossed = {in_call(7, {3}), std::nullopt, in_call(7, {3}), elsewhere};
  expect_culprit(find_culprit(question({3}), crossed), 1, "rank 1 (a, pid 11) does not answer");
}

TEST(Diagnose, ASilentRankOutsideTheChain) {
  const Activities moving = {in_call(7, {1}), in_call(7, {}), in_call(7, {}), std::nullopt};
  expect_culprit(find_culprit(question({1}), moving), 3, "does not answer");
}

TEST(Diagnose, ASlowRank) {
  const Activities moving = {in_call(7, {1}), in_call(7, {}), in_call(7, {}), in_call(7, {})};
  expect_culprit(find_culprit(question({1}), moving), 1, "slow");
}

TEST(Diagnose, ACircle) {
  const Activities circle = {in_call(7, {1}), in_call(7, {0}), in_call(7, {0}), in_call(7, {0})};
  expect_culprit(find_culprit(question({1}), circle), -1, "wait for each other");
}

TEST(Diagnose, MismatchIsFoundAndReadsTheSameEverywhere) {
  RankActivity other = in_call(7, {3});
  other.contexts[0].recent = {all_reduce(6), all_reduce(7, 99)};
  const Activities mixed = {in_call(7, {3}), in_call(7, {0}), other, in_call(7, {2})};
  const Verdict verdict = find_mismatch(question({3}), mixed);
  ASSERT_EQ(verdict.status.code(), StatusCode::mismatch);
  EXPECT_NE(verdict.status.message().find(
                "rank 0 (a, pid 10) calls all_reduce(count=100, f32, sum) as its 7th call; rank 2 (b, pid 12) calls "
                "all_reduce(count=99, f32, sum) as its 7th call"),
            std::string::npos)
      << verdict.status.message();
  Question from_three = question({2});
  from_three.self = 3;
  EXPECT_EQ(find_mismatch(from_three, mixed).status.message(), verdict.status.message());
  EXPECT_EQ(find_culprit(question({3}), mixed).status.code(), StatusCode::mismatch);
}

TEST(Diagnose, EqualCallsAreNoMismatch) {
  const Activities same = {in_call(7, {3}), busy(6), std::nullopt, in_call(8, {2})};
  EXPECT_TRUE(find_mismatch(question({3}), same).status.is_ok());
}

TEST(Activity, SurvivesTheWire) {
  ActivityRecord record(kContext);
  for (std::uint64_t i = 1; i <= 20; ++i) record.enter(all_reduce(i, i));
  record.set_waiting({3, 5}, "all_reduce(...)");
  const ContextActivity before = record.snapshot();
  const std::string text = encode_activity({before}) + encode_activity({before});
  const auto after = decode_activity(text);
  ASSERT_TRUE(after);
  ASSERT_EQ(after->contexts.size(), 2u);
  EXPECT_EQ(after->contexts[1].recent, before.recent);
  EXPECT_EQ(after->contexts[1].recent.size(), 8u);
  EXPECT_EQ(after->contexts[1].waits_for, (std::vector<int>{3, 5}));
  EXPECT_EQ(after->contexts[1].entered, 20u);
  for (std::size_t cut = 1; cut < text.size() / 2; ++cut) EXPECT_FALSE(decode_activity(text.substr(0, cut)));
  EXPECT_TRUE(record.recent_call(20) && record.recent_call(13));
  EXPECT_FALSE(record.recent_call(12));
}

}  // namespace
}  // namespace trireme
