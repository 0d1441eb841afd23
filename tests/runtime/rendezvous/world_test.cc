// Ranks as threads of this process, over the real server and real sockets.
#include <cstdio>
#include <mutex>
#include <thread>

#include <unistd.h>

#include <gtest/gtest.h>

#include "runtime/rendezvous/api/local_worlds.h"
#include "runtime/rendezvous/api/store_server.h"

namespace trireme {
namespace {

using Worlds = std::vector<std::shared_ptr<World>>;

Worlds worlds_of(int size, const LocalWorldsOptions& options = {}) {
  return make_local_worlds(size, options).value();
}

std::vector<int> all_ranks(int size) {
  std::vector<int> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(rank);
  return ranks;
}

// Runs `body` once per rank, each on a thread.
template <typename Body>
void on_each(const Worlds& worlds, Body body) {
  std::vector<std::thread> threads;
  for (const auto& world : worlds) threads.emplace_back([&body, &world] { body(*world); });
  for (std::thread& thread : threads) thread.join();
}

Deadline soon() {
  return Deadline::after_ms(60'000);
}

class WorldOfSize : public testing::TestWithParam<int> {};

TEST_P(WorldOfSize, ExchangeKeysAndCounters) {
  const int size = GetParam();
  const Worlds worlds = worlds_of(size);
  on_each(worlds, [&](World& world) {
    const std::string mine = "value of " + std::to_string(world.rank());
    for (int round = 0; round < 3; ++round) {
      const auto all = world.exchange("round " + std::to_string(round), all_ranks(size), mine, soon());
      ASSERT_TRUE(all.is_ok()) << all.status().to_string();
      for (int rank = 0; rank < size; ++rank) EXPECT_EQ((*all)[rank], "value of " + std::to_string(rank));
    }
    ASSERT_TRUE(world.put("key " + std::to_string(world.rank()), mine).is_ok());
    const int next = (world.rank() + 1) % size;
    EXPECT_EQ(*world.get("key " + std::to_string(next), soon()), "value of " + std::to_string(next));
    EXPECT_GE(*world.add("arrived", 1), 1);
  });
  EXPECT_EQ(*worlds[0]->add("arrived", 0), size);
}

TEST_P(WorldOfSize, EverybodyKnowsEverybody) {
  const int size = GetParam();
  const Worlds worlds = worlds_of(size);
  for (const auto& world : worlds) {
    EXPECT_EQ(world->size(), size);
    EXPECT_EQ(world->local_rank(), world->rank());
    EXPECT_EQ(world->local_size(), size);
    EXPECT_EQ(world->node_count(), 1);
    EXPECT_EQ(world->peer(size - 1).rank, size - 1);
    EXPECT_EQ(world->peer(size - 1).to_string(), worlds[0]->peer(size - 1).to_string());
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, WorldOfSize, testing::Values(1, 2, 3, 5, 9));

TEST(World, RanksMayClaimSeveralHosts) {
  LocalWorldsOptions options;
  options.ranks_per_host = 2;
  const Worlds worlds = worlds_of(5, options);
  EXPECT_EQ(worlds[4]->node_rank(), 2);
  EXPECT_EQ(worlds[4]->local_size(), 1);
  EXPECT_EQ(worlds[3]->local_rank(), 1);
  EXPECT_EQ(worlds[0]->node_count(), 3);
  EXPECT_NE(worlds[0]->peer(0).host_identity, worlds[0]->peer(2).host_identity);
}

TEST(World, SubgroupsExchangeInTheirOwnOrder) {
  const Worlds worlds = worlds_of(5);
  on_each(worlds, [](World& world) {
    const std::vector<int> group = world.rank() % 2 == 0 ? std::vector<int>{4, 0, 2} : std::vector<int>{3, 1};
    const auto values = world.exchange("same name", group, std::to_string(world.rank()), soon());
    ASSERT_TRUE(values.is_ok());
    for (std::size_t i = 0; i < group.size(); ++i) EXPECT_EQ((*values)[i], std::to_string(group[i]));
  });
}

TEST(World, LargeValuesAndTheirLimit) {
  const Worlds worlds = worlds_of(3);
  const std::string large(std::size_t{5} << 20, 'x');
  on_each(worlds, [&](World& world) {
    const auto values = world.exchange("large", {0, 1, 2}, large, soon());
    ASSERT_TRUE(values.is_ok()) << values.status().to_string();
    for (const std::string& value : *values) EXPECT_TRUE(value == large);
  });
  const Status status = worlds[0]->put("too large", std::string((std::size_t{16} << 20) + 1, 'x'));
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  EXPECT_NE(status.message().find("too large"), std::string::npos);
}

TEST(World, ManyThreadsOfOneRankAskAtOnce) {
  const Worlds worlds = worlds_of(2);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const std::string key = std::to_string(t) + "/" + std::to_string(i);
        std::thread writer([&] { ASSERT_TRUE(worlds[1]->put(key, key).is_ok()); });
        EXPECT_EQ(*worlds[0]->get(key, soon()), key);
        writer.join();
        EXPECT_TRUE(worlds[0]->add("count", 1).is_ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(*worlds[1]->add("count", 0), 400);
}

TEST(World, DeadlinesNameWhatWasWaitedFor) {
  const Worlds worlds = worlds_of(3);
  const Status get = worlds[1]->get("a key", Deadline::after_ms(20)).status();
  EXPECT_EQ(get.code(), StatusCode::deadline_exceeded);
  EXPECT_NE(get.message().find("rank 1 waited for the key \"a key\""), std::string::npos) << get.message();
  const Status exchange = worlds[1]->exchange("x", {0, 1, 2}, "", Deadline::after_ms(20)).status();
  EXPECT_EQ(exchange.code(), StatusCode::deadline_exceeded);
  EXPECT_NE(exchange.message().find(worlds[0]->peer(0).to_string()), std::string::npos) << exchange.message();
  EXPECT_NE(exchange.message().find(worlds[0]->peer(2).to_string()), std::string::npos) << exchange.message();
}

TEST(World, ADepartureIsNoFailureButIsNamedToThoseWhoWait) {
  Worlds worlds = worlds_of(3);
  const std::string gone = worlds[2]->peer(2).to_string();
  worlds[2].reset();
  const Status exchange = worlds[0]->exchange("x", {0, 2}, "", soon()).status();
  EXPECT_EQ(exchange.code(), StatusCode::peer_dead);
  EXPECT_NE(exchange.message().find(gone + " has left"), std::string::npos) << exchange.message();
  const Status get = worlds[0]->get("absent", Deadline::after_ms(20)).status();
  EXPECT_NE(get.message().find(gone), std::string::npos) << get.message();
  worlds[1].reset();
  EXPECT_EQ(worlds[0]->get("absent", soon()).status().code(), StatusCode::peer_dead);
  EXPECT_FALSE(worlds[0]->failure());
}

TEST(World, ActivitiesOfAllRanks) {
  Worlds worlds = worlds_of(4);
  std::vector<std::shared_ptr<void>> tokens;
  for (int rank = 0; rank < 3; ++rank) {
    tokens.push_back(worlds[rank]->set_activity_source([rank] { return "busy " + std::to_string(rank); }));
  }
  std::vector<std::optional<std::string>> activities = worlds[3]->collect_activities(soon());
  EXPECT_EQ(activities[0], "busy 0");
  EXPECT_EQ(activities[2], "busy 2");
  EXPECT_EQ(activities[3], "");
  worlds[2].reset();
  activities = worlds[0]->collect_activities(soon());
  EXPECT_EQ(activities[1], "busy 1");
  EXPECT_FALSE(activities[2]);
}

TEST(World, NotesReachTheServer) {
  std::mutex mutex;
  std::vector<std::string> notes;
  StoreServerOptions server_options;
  server_options.world_size = 1;
  server_options.on_notify = [&](int rank, std::string_view topic, std::string_view value) {
    const std::lock_guard lock(mutex);
    notes.push_back(std::to_string(rank) + " " + std::string(topic) + " " + std::string(value));
  };
  const auto server = StoreServer::start(server_options).value();
  WorldOptions options;
  options.rank = 0;
  options.size = 1;
  options.store_address = server->address();
  options.epoch = 1;
  const auto world = World::join(options).value();
  world->notify_launcher("step", "7");
  ASSERT_TRUE(world->put("k", "v").is_ok());  // Requests of one rank are served in order.
  const std::lock_guard lock(mutex);
  EXPECT_EQ(notes, std::vector<std::string>{"0 step 7"});
}

TEST(World, TwoJobsAtOnceDoNotMeet) {
  const Worlds a = worlds_of(2);
  const Worlds b = worlds_of(2);
  ASSERT_TRUE(a[0]->put("k", "a").is_ok());
  ASSERT_TRUE(b[0]->put("k", "b").is_ok());
  EXPECT_EQ(*a[1]->get("k", soon()), "a");
  EXPECT_EQ(*b[1]->get("k", soon()), "b");
}

TEST(World, WorksOverIpv6AndAbstractUnixSockets) {
  for (const std::string& address :
       {std::string("[::1]:0"), "unix:@trireme-world-test-" + std::to_string(::getpid())}) {
    LocalWorldsOptions options;
    options.listen_address = address;
    const auto worlds = make_local_worlds(3, options);
    if (!worlds.is_ok() && address[0] == '[') {
      std::printf("skipped: no IPv6 loopback here (%s)\n", worlds.status().to_string().c_str());
      continue;
    }
    ASSERT_TRUE(worlds.is_ok()) << worlds.status().to_string();
    on_each(*worlds, [](World& world) { EXPECT_TRUE(world.exchange("x", {0, 1, 2}, "", soon()).is_ok()); });
  }
}

TEST(World, ManyRanksJoin) {
  const Worlds worlds = worlds_of(64);
  EXPECT_EQ(worlds[0]->peer(63).rank, 63);
  EXPECT_EQ(worlds[17]->local_size(), 64);
}

}  // namespace
}  // namespace trireme
