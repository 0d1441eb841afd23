// Verdicts, from tables of what ranks say.
#include "runtime/telemetry/api/verdict.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

constexpr std::int64_t kNow = 1'000'000'000'000;
constexpr std::int64_t kSecond = 1'000'000'000;

struct CallSpec {
  std::uint64_t sequence;
  CallState state = CallState::done;
  std::int64_t seconds_ago = 100;
  const char* op = "all_reduce";
  std::uint64_t count = 100;
  int waits_for = -1;
  int root = 0;
};

RecordedCommunicator communicator(std::uint64_t context, std::vector<int> members, int rank,
                                  const std::vector<CallSpec>& calls) {
  RecordedCommunicator made;
  made.context = context;
  made.members = std::move(members);
  made.size = static_cast<int>(made.members.size());
  made.rank = rank;
  made.calls = calls.size();
  for (const CallSpec& spec : calls) {
    RecordedCall call;
    call.index = made.recent.size();
    call.sequence = spec.sequence;
    call.op = spec.op;
    call.type = DataType::f32;
    call.count = spec.count;
    call.root = spec.root;
    call.state = spec.state;
    call.waits_for = spec.waits_for;
    call.entered_ns = kNow - spec.seconds_ago * kSecond;
    if (!call.pending()) call.ended_ns = call.entered_ns + 1000;
    if (spec.state == CallState::done) made.done_sequence = std::max(made.done_sequence, spec.sequence);
    made.recent.push_back(call);
  }
  return made;
}

RankView view(int rank, std::vector<RecordedCommunicator> communicators, char state = 'S') {
  RankView made;
  made.rank = rank;
  made.host = "node1";
  made.pid = 100 + rank;
  made.state = state;
  Recording recording;
  recording.identity.rank = rank;
  recording.identity.size = 4;
  recording.pid = made.pid;
  recording.read_at_ns = kNow;
  recording.communicators = std::move(communicators);
  made.recording = std::move(recording);
  return made;
}

const std::vector<int> kAll = {0, 1, 2, 3};
const CallSpec kDone{51};
const CallSpec kInside{52, CallState::moving, 12};

// Four ranks in one communicator, each with its calls.
std::vector<RankView> job(const std::vector<std::vector<CallSpec>>& calls) {
  std::vector<RankView> ranks;
  for (std::size_t r = 0; r < calls.size(); ++r) {
    const int rank = static_cast<int>(r);
    ranks.push_back(view(rank, {communicator(0xc0, kAll, rank, calls[r])}));
  }
  return ranks;
}

void expect_one(const JobVerdict& verdict, FindingKind kind, const std::vector<int>& ranks,
                const std::vector<std::string>& parts) {
  ASSERT_EQ(verdict.findings.size(), 1u) << ::testing::PrintToString(verdict_lines(verdict));
  EXPECT_EQ(verdict.findings[0].kind, kind) << verdict.findings[0].text;
  EXPECT_EQ(verdict.findings[0].ranks, ranks) << verdict.findings[0].text;
  for (const std::string& part : parts) {
    EXPECT_NE(verdict.findings[0].text.find(part), std::string::npos) << part << "\nin " << verdict.findings[0].text;
  }
}

TEST(Verdict, AJobThatMovesIsWell) {
  const CallSpec fresh{52, CallState::moving, 1};
  EXPECT_TRUE(judge({}).is_well());
  EXPECT_TRUE(judge(job({{kDone}, {kDone}, {kDone}, {kDone}})).is_well());
  EXPECT_TRUE(judge(job({{kDone, fresh}, {kDone}, {kDone, fresh}, {kDone}})).is_well());
  EXPECT_FALSE(judge(job({{kDone, fresh}, {kDone}, {kDone, fresh}, {kDone}}), {500}).is_well());
}

TEST(Verdict, AStoppedRankAndWhoWaitsForIt) {
  auto ranks = job({{kDone, kInside}, {kDone, kInside}, {kDone}, {kDone, kInside}});
  ranks[2].state = 'T';
  const JobVerdict verdict = judge(ranks);
  expect_one(verdict, FindingKind::stopped, {2},
             {"rank 2 (node1, pid 102) is stopped (state T); ranks 0-1, 3 have waited 12.0 s for it in "
              "all_reduce(count=100, f32, sum), the 52nd call of communicator 00000000000000c0 (4 ranks), which it has "
              "not entered",
              "kill -CONT 102"});
  ASSERT_EQ(verdict.progress.size(), 1u);
  EXPECT_EQ(verdict.progress[0], "communicator 00000000000000c0 (4 ranks): last call finished: 51st by ranks 0-3");
}

// A leak checker stops the threads of a process that ends, a debugger those of one it holds.
TEST(Verdict, AStoppedRankThatHasFoundAnotherToBlameIsNotNamed) {
  auto ranks = job({{kDone, {52, CallState::failed, 3}}, {kDone, kInside}, {kDone}, {kDone, kInside}});
  ranks[0].recording->failure = RecordedFailure{"deadline_exceeded: rank 2 does not answer", 2, 0};
  ranks[0].state = 't';
  ranks[2].state = 'T';
  expect_one(judge(ranks), FindingKind::stopped, {2}, {"rank 2 (node1, pid 102) is stopped (state T)"});
  auto held = job({{kDone}, {kDone, kInside}, {kDone, kInside}, {kDone, kInside}});
  held[0].state = 't';
  expect_one(judge(held), FindingKind::stopped, {0}, {"(state t)", "A debugger or tracer holds it"});
}

TEST(Verdict, AKilledRankIsNamedAndItsEchoesAreNot) {
  auto ranks = job({{kDone, {52, CallState::failed, 3}}, {kDone}, {kDone, {52, CallState::failed, 3}}, {kDone}});
  for (const int r : {0, 2}) {
    auto& rank = ranks[static_cast<std::size_t>(r)];
    rank.recording->failure = RecordedFailure{"peer_dead: rank 1 is dead", 1, 0};
    rank.failed = true;
    rank.ended = "exit code 1";
    rank.state = 'X';
  }
  ranks[1].failed = true;
  ranks[1].ended = "signal 9 (SIGKILL)";
  ranks[1].state = 'X';
  // Rank 3 had not entered the call either, which is nobody's trouble now.
  expect_one(judge(ranks), FindingKind::ended, {1},
             {"rank 1 (node1, pid 101) ended by itself: signal 9 (SIGKILL); ranks 0, 2 have waited"});
}

TEST(Verdict, DisagreementShowsBothSides) {
  CallSpec other = kInside;
  other.op = "broadcast";
  const auto verdict = judge(job({{kDone, kInside}, {kDone, other}, {kDone, kInside}, {kDone, kInside}}));
  expect_one(verdict, FindingKind::disagree, {1},
             {"ranks disagree on the 52nd call", "ranks 0, 2-3: all_reduce(count=100, f32, sum)",
              "rank 1: broadcast(count=100, f32, root=0)"});
  CallSpec counted = kInside;
  counted.count = 101;
  expect_one(judge(job({{kDone, kInside}, {kDone, kInside}, {kDone, kInside}, {kDone, counted}})),
             FindingKind::disagree, {3}, {"rank 3: all_reduce(count=101, f32, sum)"});
  // The first difference is the cause, later ones follow from it.
  expect_one(
      judge(job({{{50}, {51}}, {{50}, {51, CallState::done, 9, "barrier"}}, {{50}, {51}, kInside}, {{50}, {51}}})),
      FindingKind::disagree, {1}, {"the 51st call"});
}

TEST(Verdict, UnevenPartsDifferByTheirFingerprint) {
  const CallSpec a{52, CallState::done, 5, "all_gather_v", 7};
  std::vector<RankView> ranks = job({{a}, {a}, {a}, {a}});
  EXPECT_TRUE(judge(ranks).is_well());
  ranks[3].recording->communicators[0].recent[0].tag = -1;
  expect_one(judge(ranks), FindingKind::disagree, {3},
             {"ranks 0-2: all_gather_v(count=7, f32)", "rank 3: all_gather_v(count=7, f32, details=ffffffff)"});
}

TEST(Verdict, TheRankThatHasNotComeIsMissing) {
  expect_one(judge(job({{kDone, kInside}, {kDone, kInside}, {kDone, kInside}, {kDone}})), FindingKind::missing, {3},
             {"rank 3 (node1, pid 103) has not entered all_reduce(count=100, f32, sum), the 52nd call",
              "in which ranks 0-2 have waited 12.0 s",
              "its last call there was all_reduce(count=100, f32, sum) (the "
              "51st), and it is busy in its own code"});
  expect_one(judge(job({{kDone, kInside}, {}, {kDone, kInside}, {kDone}})), FindingKind::missing, {1, 3},
             {"ranks 1, 3 have not entered"});
}

TEST(Verdict, AMissingRankThatHasEndedIsNotCalledBusy) {
  auto ranks = job({{kDone, kInside}, {kDone, kInside}, {kDone, kInside}, {kDone}});
  ranks[3].state = 'X';
  ranks[3].ended = "exit code 0";
  expect_one(judge(ranks), FindingKind::missing, {3}, {"51st), and it has ended: exit code 0"});
}

TEST(Verdict, ARankWithoutRecorderIsMissingToo) {
  auto ranks = job({{kInside}, {kInside}, {kInside}, {}});
  ranks[3].recording.reset();
  expect_one(judge(ranks), FindingKind::missing, {3}, {"its program has not joined the job"});
  ranks.pop_back();
  expect_one(judge(ranks), FindingKind::missing, {3}, {"rank 3 has not entered", "nothing is known of it here"});
}

TEST(Verdict, TheWaitIsFollowedAcrossCommunicators) {
  // 0 waits for 1 in a; 1 waits for 2 in b; 2 is busy. Only 2 is to blame.
  const std::vector<RankView> ranks = {
      view(0, {communicator(0xa, {0, 1}, 0, {kInside})}),
      view(1, {communicator(0xa, {0, 1}, 1, {}), communicator(0xb, {1, 2}, 0, {kInside})}),
      view(2, {communicator(0xb, {1, 2}, 1, {kDone})})};
  expect_one(judge(ranks), FindingKind::missing, {2}, {"rank 2 (node1, pid 102)", "communicator 000000000000000b"});
}

TEST(Verdict, OppositeOrdersAreACircle) {
  const std::vector<RankView> ranks = {
      view(0, {communicator(0xa, {0, 1}, 0, {kInside}), communicator(0xb, {0, 1}, 0, {})}),
      view(1, {communicator(0xa, {0, 1}, 1, {}), communicator(0xb, {0, 1}, 1, {kInside})})};
  expect_one(judge(ranks), FindingKind::circle, {0, 1}, {"ranks 0-1 wait for each other"});
}

TEST(Verdict, TheOneWaitedForIsSlow) {
  CallSpec waits = kInside;
  waits.waits_for = 2;
  expect_one(judge(job({{waits}, {waits}, {kInside}, {waits}})), FindingKind::slow, {2},
             {"rank 2 (node1, pid 102) is slow in all_reduce", "12.0 s"});
  expect_one(judge(job({{kInside}, {kInside}, {kInside}, {kInside}})), FindingKind::slow, {0, 1, 2, 3},
             {"all have entered it"});
}

TEST(Verdict, AReceiveWithoutItsSend) {
  const CallSpec receive{0, CallState::entered, 30, "receive", 8, -1, 3};
  expect_one(judge(job({{kDone, receive}, {kDone}, {kDone}, {kDone}})), FindingKind::missing, {3},
             {"rank 3 (node1, pid 103) has not made the other half of receive(count=8, f32, peer=3, tag=0), in which "
              "rank 0 has waited 30"});
  const CallSpec back{0, CallState::entered, 30, "receive", 8, -1, 0};
  expect_one(judge(job({{receive}, {}, {}, {back}})), FindingKind::circle, {0, 3}, {"a receive without a send"});
}

TEST(Verdict, AnOlderEpochSaysNothing) {
  auto ranks = job({{kDone}, {kDone}, {kDone}, {kDone, kInside}});
  for (int r = 0; r < 3; ++r) ranks[static_cast<std::size_t>(r)].recording->identity.epoch = 2;
  EXPECT_TRUE(judge(ranks).is_well());
}

TEST(Verdict, RankLists) {
  EXPECT_EQ(rank_list({3}), "rank 3");
  EXPECT_EQ(rank_list({5, 0, 1, 2}), "ranks 0-2, 5");
  EXPECT_EQ(rank_list({7, 6}), "ranks 6-7");
}

}  // namespace
}  // namespace trireme
