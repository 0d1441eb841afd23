// The store's decisions, one by one. store_random_test.cc mixes them.
#include "runtime/rendezvous/store_state.h"

#include <map>

#include <gtest/gtest.h>

#include "tests/runtime/rendezvous/store_harness.h"

namespace trireme::store {
namespace {

std::vector<ConnectionId> join_all(StoreHarness& store) {
  std::vector<ConnectionId> members;
  for (int rank = 0; rank < store.size(); ++rank) members.push_back(store.join(rank));
  return members;
}

TEST(StoreState, TheTableComesWhenAllAreThere) {
  StoreHarness store(3);
  const ConnectionId first = store.join(2);
  store.join(0);
  EXPECT_EQ(store.client(first).tables, 0);
  store.join(1);
  for (auto& [id, client] : store.clients()) EXPECT_EQ(client.tables, 1) << id;
}

TEST(StoreState, RefusesByName) {
  StoreHarness store(4);
  const auto refusal = [&](auto change, const std::string& secret = "secret") {
    Hello hello = store.hello(1);
    change(hello);
    const ConnectionId id = store.join(hello, secret);
    EXPECT_FALSE(store.client(id).open);
    EXPECT_FALSE(store.client(id).member);
    return store.refusal(id);
  };
  EXPECT_EQ(refusal([](Hello& h) { h.job_id = "other"; }).to_string(),
            "not_found: this is the store of job \"job\", not of job \"other\"");
  EXPECT_EQ(refusal([](Hello& h) { h.version = 7; }).code(), StatusCode::unsupported);
  EXPECT_EQ(refusal([](Hello&) {}, "wrong").code(), StatusCode::permission_denied);
  EXPECT_EQ(refusal([](Hello& h) { h.world_size = 5; }).code(), StatusCode::mismatch);
  EXPECT_EQ(refusal([](Hello& h) { h.epoch = 2; }).code(), StatusCode::mismatch);
  EXPECT_EQ(refusal([](Hello& h) { h.resume = true; }).code(), StatusCode::unavailable);
  const Status stale = refusal([](Hello& h) { h.epoch = 0; });
  EXPECT_EQ(stale.code(), StatusCode::stale_epoch);
  EXPECT_NE(stale.message().find("epoch 0"), std::string::npos);
  EXPECT_NE(stale.message().find("epoch 1"), std::string::npos);
  // None of this disturbs the ranks that join properly.
  for (const ConnectionId id : join_all(store)) EXPECT_EQ(store.client(id).tables, 1);
}

TEST(StoreState, TheFirstRankMaySayHowManyThereAre) {
  StoreHarness store(0);
  const auto hello = [&](int rank, std::uint32_t size) {
    Hello said = store.hello(rank);
    said.world_size = size;
    return said;
  };
  EXPECT_EQ(store.refusal(store.join(hello(0, 9), "wrong")).code(), StatusCode::permission_denied);  // Decides nothing.
  const ConnectionId first = store.join(hello(1, 2));
  EXPECT_TRUE(store.client(first).member);
  EXPECT_EQ(store.client(first).tables, 0);
  EXPECT_EQ(store.refusal(store.join(hello(2, 3))).code(), StatusCode::mismatch);
  const ConnectionId second = store.join(hello(0, 2));
  for (const ConnectionId id : {first, second}) EXPECT_EQ(store.client(id).tables, 1);
}

TEST(StoreState, ADuplicateRankIsRefusedAndTheFirstStays) {
  StoreHarness store(2);
  const ConnectionId first = store.join(0);
  const ConnectionId second = store.join(0);
  EXPECT_EQ(store.refusal(second).code(), StatusCode::already_exists);
  EXPECT_NE(store.refusal(second).message().find("rank 0 (host, pid 1000)"), std::string::npos);
  EXPECT_TRUE(store.client(first).open);
}

TEST(StoreState, SlowHandshakesEnd) {
  StoreHarness store(2);
  const ConnectionId silent = store.connect();
  const ConnectionId halfway = store.connect();
  store.send_hello(halfway, store.hello(0));
  const ConnectionId member = store.join(1);
  store.tick(9'999);
  EXPECT_TRUE(store.client(silent).open);
  store.tick(1);
  EXPECT_FALSE(store.client(silent).open);
  EXPECT_FALSE(store.client(halfway).open);
  EXPECT_EQ(store.refusal(silent).code(), StatusCode::deadline_exceeded);
  EXPECT_TRUE(store.client(member).open);
}

TEST(StoreState, ManySilentConnectionsMakeRoomForNewOnes) {
  StoreHarness store(1);
  std::vector<ConnectionId> silent;
  for (int i = 0; i < 20; ++i) silent.push_back(store.connect());
  EXPECT_FALSE(store.client(silent.front()).open);
  EXPECT_TRUE(store.client(silent.back()).open);
  EXPECT_EQ(store.client(store.join(0)).tables, 1);
}

TEST(StoreState, MembershipNamesTheMissingAndTheirLastContact) {
  StoreHarness store(4);
  store.join(0);
  store.join(store.hello(2), "wrong");
  store.now_ms += 3000;
  const std::string text = store.state().describe_membership(store.now_ms);
  EXPECT_NE(text.find("1 of 4 ranks are here (rank 0 (host, pid 1000))"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 1: never heard from"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 2: last heard from 3"), std::string::npos) << text;
  EXPECT_NE(text.find("wrong secret"), std::string::npos) << text;
}

TEST(StoreState, GivingUpTellsAllWhoWasMissing) {
  StoreHarness store(3);
  const ConnectionId patient = store.join(0);
  const ConnectionId hasty = store.join(2);
  store.send(hasty, MessageType::leave, 1, {});
  for (const ConnectionId id : {patient, hasty}) {
    EXPECT_EQ(store.last_failure(id).status.code(), StatusCode::deadline_exceeded);
    EXPECT_EQ(store.last_failure(id).culprit_rank, 1);
    EXPECT_NE(store.last_failure(id).status.message().find("rank 1: never heard from"), std::string::npos);
  }
}

TEST(StoreState, AnEndedConnectionIsADeathAndALeaveIsNot) {
  StoreHarness store(3);
  const auto members = join_all(store);
  store.send(members[0], MessageType::leave, 1, {});
  EXPECT_EQ(store.count(members[1], MessageType::departed), 1u);
  EXPECT_EQ(store.count(members[1], MessageType::failure), 0u);
  store.disconnect(members[2]);
  EXPECT_EQ(store.last_failure(members[1]).culprit_rank, 2);
  EXPECT_EQ(store.last_failure(members[1]).status.to_string(),
            "peer_dead: rank 2 (host, pid 1002) died: its connection to the store ended");
}

TEST(StoreState, TheLaunchersReasonIsWaitedFor) {
  StoreHarness store(3, 100);
  const auto members = join_all(store);
  store.disconnect(members[1]);
  EXPECT_EQ(store.count(members[0], MessageType::failure), 0u);
  store.announce_death(1, "signal 9 (SIGKILL)");
  EXPECT_NE(store.last_failure(members[0]).status.message().find("signal 9 (SIGKILL)"), std::string::npos);
  StoreHarness silent(2, 100);
  const auto pair = join_all(silent);
  silent.disconnect(pair[1]);
  silent.tick(100);
  EXPECT_EQ(silent.last_failure(pair[0]).culprit_rank, 1);
}

TEST(StoreState, ADeathBeforeJoiningEndsTheWaitOfTheOthers) {
  StoreHarness store(2);
  const ConnectionId waiting = store.join(0);
  store.announce_death(1, "exit code 1");
  EXPECT_EQ(store.last_failure(waiting).status.to_string(), "peer_dead: rank 1 ended before it joined: exit code 1");
  EXPECT_EQ(store.refusal(store.join(1)).code(), StatusCode::peer_dead);
}

TEST(StoreState, TheEndOfAProcessThatHasLeftIsNoDeath) {
  StoreHarness store(2);
  const auto members = join_all(store);
  store.send(members[0], MessageType::leave, 1, {});
  store.announce_death(0, "exit code 0");
  EXPECT_EQ(store.count(members[1], MessageType::failure), 0u);
}

TEST(StoreState, TheFirstFailureOfAContextWins) {
  StoreHarness store(2);
  const auto members = join_all(store);
  store.send(members[0], MessageType::report_failure, 0, encode_failure({mismatch("first"), 1, 7}));
  store.send(members[1], MessageType::report_failure, 0, encode_failure({mismatch("second"), 0, 7}));
  for (const ConnectionId id : members) {
    EXPECT_EQ(store.count(id, MessageType::failure), 1u);
    EXPECT_EQ(store.last_failure(id).status.message(), "first");
  }
}

TEST(StoreState, GetWaitsForPutAndIsAnsweredOnce) {
  StoreHarness store(2);
  const auto members = join_all(store);
  store.send(members[0], MessageType::get, 5, encode_text("k"));
  EXPECT_FALSE(store.reply(members[0], 5).is_ok());
  store.send(members[1], MessageType::put, 6, encode_pair("k", "v1"));
  store.send(members[1], MessageType::put, 7, encode_pair("k", "v2"));
  EXPECT_EQ(*store.reply(members[0], 5), "v1");
  store.send(members[0], MessageType::get, 8, encode_text("k"));
  EXPECT_EQ(*store.reply(members[0], 8), "v2");
}

TEST(StoreState, ACancelledGetStaysSilent) {
  StoreHarness store(2);
  const auto members = join_all(store);
  store.send(members[0], MessageType::get, 5, encode_text("k"));
  store.send(members[0], MessageType::cancel, 5, {});
  store.send(members[1], MessageType::put, 6, encode_pair("k", "v"));
  EXPECT_EQ(store.count(members[0], MessageType::reply), 0u);
}

TEST(StoreState, ExchangeGathersInTheOrderOfItsMembers) {
  StoreHarness store(4);
  const auto members = join_all(store);
  const std::vector<int> group = {3, 0, 2};
  for (const int rank : {0, 2, 3}) {
    store.send(members[rank], MessageType::exchange, 1, encode_exchange("x", group, "value " + std::to_string(rank)));
  }
  const std::string gathered = *store.reply(members[2], 1);
  WireReader reader(gathered);
  EXPECT_EQ(reader.u32(), 3u);
  EXPECT_EQ(reader.string(), "value 3");
  // Another group may use the same name, and the same group again.
  store.send(members[1], MessageType::exchange, 1, encode_exchange("x", {1}, "alone"));
  EXPECT_TRUE(store.reply(members[1], 1).is_ok());
  store.send(members[0], MessageType::exchange, 2, encode_exchange("x", group, "again"));
  EXPECT_FALSE(store.reply(members[0], 2).is_ok());
}

TEST(StoreState, ExchangeNamesWhoHasNotComeAndMayBeTriedAgain) {
  StoreHarness store(3);
  const auto members = join_all(store);
  store.send(members[0], MessageType::exchange, 1, encode_exchange("x", {0, 1, 2}, "old"));
  store.send(members[0], MessageType::cancel, 1, {});
  const Status late = store.reply(members[0], 1).status();
  EXPECT_EQ(late.code(), StatusCode::deadline_exceeded);
  EXPECT_NE(late.message().find("rank 1 (host, pid 1001), rank 2 (host, pid 1002)"), std::string::npos)
      << late.message();
  store.send(members[0], MessageType::exchange, 2, encode_exchange("x", {0, 1, 2}, "new"));
  store.send(members[1], MessageType::exchange, 1, encode_exchange("x", {0, 1, 2}, "b"));
  store.send(members[2], MessageType::exchange, 1, encode_exchange("x", {0, 1, 2}, "c"));
  const std::string gathered = *store.reply(members[1], 1);
  WireReader reader(gathered);
  reader.u32();
  EXPECT_EQ(reader.string(), "new");
  EXPECT_TRUE(store.reply(members[0], 2).is_ok());
}

TEST(StoreState, ADepartedMemberIsNamedToThoseWhoWaitForIt) {
  StoreHarness store(3);
  const auto members = join_all(store);
  store.send(members[0], MessageType::exchange, 1, encode_exchange("before", {0, 2}, ""));
  store.send(members[2], MessageType::leave, 9, {});
  store.send(members[0], MessageType::exchange, 2, encode_exchange("after", {0, 2}, ""));
  for (const std::uint64_t request : {1, 2}) {
    EXPECT_EQ(store.reply(members[0], request).status().code(), StatusCode::peer_dead);
    EXPECT_NE(store.reply(members[0], request).status().message().find("rank 2 (host, pid 1002) has left"),
              std::string::npos);
  }
  store.send(members[0], MessageType::get, 3, encode_text("k"));
  store.send(members[1], MessageType::leave, 9, {});
  EXPECT_NE(store.reply(members[0], 3).status().message().find("rank 1 (host, pid 1001) was the last"),
            std::string::npos);
}

TEST(StoreState, MalformedRequestsAreAnsweredByName) {
  StoreHarness store(2);
  const auto members = join_all(store);
  std::uint64_t request = 1;
  const auto refused = [&](MessageType type, std::string payload) {
    store.send(members[0], type, request, std::move(payload));
    return store.reply(members[0], request++).status().code();
  };
  EXPECT_EQ(refused(MessageType::put, "x"), StatusCode::invalid_argument);
  EXPECT_EQ(refused(MessageType::put, encode_pair("", "v")), StatusCode::invalid_argument);
  EXPECT_EQ(refused(MessageType::put, encode_pair(std::string(kMaxKeyBytes + 1, 'k'), "v")),
            StatusCode::invalid_argument);
  EXPECT_EQ(refused(MessageType::get, encode_pair("k", "extra")), StatusCode::invalid_argument);
  EXPECT_EQ(refused(MessageType::add, encode_text("k")), StatusCode::invalid_argument);
  EXPECT_EQ(refused(MessageType::exchange, encode_exchange("x", {1}, "")), StatusCode::invalid_argument);
  EXPECT_EQ(refused(MessageType::exchange, encode_exchange("x", {0, 0}, "")), StatusCode::invalid_argument);
  EXPECT_EQ(refused(MessageType::exchange, encode_exchange("x", {0, 2}, "")), StatusCode::invalid_argument);
  EXPECT_EQ(refused(MessageType::exchange, encode_exchange("x", {0, -1}, "")), StatusCode::invalid_argument);
  store.send(members[0], MessageType::add, request, encode_add("c", INT64_MAX));
  EXPECT_TRUE(store.reply(members[0], request++).is_ok());
  EXPECT_EQ(refused(MessageType::add, encode_add("c", 1)), StatusCode::invalid_argument);
  EXPECT_TRUE(store.client(members[0]).open);
}

// What activity_parts told a member so far, "?" where it is unknown.
std::map<int, std::string> activities_of(StoreHarness& store, ConnectionId asker, std::uint64_t request) {
  std::map<int, std::string> told;
  for (const Frame& frame : store.client(asker).inbox) {
    if (frame.type != MessageType::activity_parts || frame.id != request) continue;
    WireReader reader(frame.payload);
    const std::uint32_t count = reader.u32();
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto rank = static_cast<int>(reader.u32());
      const bool known = reader.u8() == 1;
      const std::string text = reader.string();
      EXPECT_TRUE(told.emplace(rank, known ? text : "?").second) << "rank " << rank << " twice";
    }
    EXPECT_TRUE(reader.finished());
  }
  return told;
}

using Told = std::map<int, std::string>;

TEST(StoreState, ActivitiesAreRelayedAndTheAbsentAreUnknown) {
  StoreHarness store(3);
  const auto members = join_all(store);
  store.send(members[2], MessageType::leave, 1, {});
  store.send(members[0], MessageType::activity_query, 4, {});
  const std::uint64_t round = store.client(members[1]).inbox.back().id;
  ASSERT_EQ(store.client(members[1]).inbox.back().type, MessageType::activity_request);
  store.tick(25);
  EXPECT_EQ(activities_of(store, members[0], 4), (Told{{2, "?"}}));  // It has left.
  store.send(members[1], MessageType::activity_answer, round, encode_text("in all_reduce"));
  store.send(members[1], MessageType::activity_answer, round, encode_text("again"));
  store.tick(25);
  EXPECT_EQ(activities_of(store, members[0], 4), (Told{{1, "in all_reduce"}, {2, "?"}})) << "though rank 0 is silent";
  store.disconnect(members[1]);
  store.send(members[0], MessageType::activity_answer, round, encode_text("me"));
  EXPECT_EQ(activities_of(store, members[0], 4), (Told{{0, "me"}, {1, "in all_reduce"}, {2, "?"}}));
}

TEST(StoreState, QuestionsShareRoundsThatBeginAfterThem) {
  constexpr int kRanks = 32;
  StoreHarness store(kRanks);
  const auto members = join_all(store);
  const auto answer_all = [&](const std::string& text) {
    for (int rank = 0; rank < kRanks; ++rank) {
      const Frame& last = store.client(members[rank]).inbox.back();
      if (last.type == MessageType::activity_request) {
        store.send(members[rank], MessageType::activity_answer, last.id, encode_text(text));
      }
    }
  };
  store.send(members[0], MessageType::activity_query, 900, {});
  for (int rank = 1; rank < kRanks; ++rank) store.send(members[rank], MessageType::activity_query, 900, {});
  answer_all("early");
  EXPECT_EQ(activities_of(store, members[0], 900).size(), kRanks);
  EXPECT_TRUE(activities_of(store, members[1], 900).empty()) << "its question came after that round had begun";
  store.tick(49);
  EXPECT_TRUE(activities_of(store, members[1], 900).empty());
  store.tick(1);
  answer_all("late");
  for (int rank = 1; rank < kRanks; ++rank) {
    const auto told = activities_of(store, members[rank], 900);
    ASSERT_EQ(told.size(), kRanks) << rank;
    EXPECT_EQ(told.at(0), "late");
    EXPECT_EQ(store.count(members[rank], MessageType::activity_request), 2u);
    EXPECT_EQ(store.count(members[rank], MessageType::activity_parts), 1u);
  }
  store.tick(1000);
  store.send(members[3], MessageType::activity_query, 901, {});
  EXPECT_EQ(store.count(members[0], MessageType::activity_request), 3u) << "at once, when none was asked of late";
  store.send(members[3], MessageType::cancel, 901, {});
  answer_all("in vain");
  EXPECT_TRUE(activities_of(store, members[3], 901).empty());
}

TEST(StoreState, ANewEpochFencesTheOldOne) {
  StoreHarness store(2);
  const auto old = join_all(store);
  store.send(old[0], MessageType::put, 1, encode_pair("k", "old"));
  const Hello late = store.hello(1);
  store.begin_epoch(2, 3);
  EXPECT_NE(store.last_failure(old[0]).status.message().find("epoch 2"), std::string::npos);
  EXPECT_NE(store.last_failure(old[0]).status.message().find("epoch 1"), std::string::npos);
  EXPECT_EQ(store.refusal(store.join(late)).code(), StatusCode::stale_epoch);
  const auto fresh = join_all(store);
  EXPECT_EQ(store.client(fresh[2]).tables, 1);
  store.send(fresh[0], MessageType::get, 1, encode_text("k"));
  EXPECT_FALSE(store.reply(fresh[0], 1).is_ok()) << "a key of the old epoch survived";
}

TEST(StoreState, NotesReachTheLauncher) {
  StoreHarness store(1);
  const ConnectionId member = store.join(0);
  store.send(member, MessageType::notify, 0, encode_pair("step", "12"));
  EXPECT_EQ(store.notes, std::vector<std::string>{"0 step 12"});
}

}  // namespace
}  // namespace trireme::store
