// Deaths, failures and fences as the Worlds see them, within this process.
#include <atomic>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>

#include "runtime/rendezvous/api/local_worlds.h"
#include "runtime/rendezvous/api/store_server.h"
#include "runtime/rendezvous/failure_board.h"

namespace trireme {
namespace {

struct Job {
  std::shared_ptr<StoreServer> server;
  std::vector<std::shared_ptr<World>> worlds;
};

Job job_of(int size, std::int64_t epoch = 1) {
  Job job;
  LocalWorldsOptions options;
  options.server = &job.server;
  options.epoch = epoch;
  job.worlds = make_local_worlds(size, options).value();
  return job;
}

Deadline soon() {
  return Deadline::after_ms(60'000);
}

// Returns once the world knows a failure: a get ends with it.
Failure wait_for_failure(World& world) {
  const Status ended = world.get("never put", soon()).status();
  EXPECT_TRUE(world.failure()) << ended.to_string();
  return world.failure().value_or(Failure{});
}

TEST(WorldFailure, AnAnnouncedDeathIsKnownToAllInTheSameWords) {
  const Job job = job_of(4);
  job.server->announce_death(2, "signal 9 (SIGKILL)");
  for (const int rank : {0, 1, 3}) {
    const Failure failure = wait_for_failure(*job.worlds[rank]);
    EXPECT_EQ(failure.culprit_rank, 2);
    EXPECT_EQ(failure.context, 0u);
    EXPECT_EQ(failure.status.to_string(),
              "peer_dead: " + job.worlds[0]->peer(2).to_string() + " died: signal 9 (SIGKILL)");
  }
}

TEST(WorldFailure, EndsWaitsAndLaterCalls) {
  const Job job = job_of(2);
  std::thread killer([&] { job.server->announce_death(1, "killed"); });
  EXPECT_EQ(job.worlds[0]->exchange("x", {0, 1}, "", Deadline::never()).status().code(), StatusCode::peer_dead);
  killer.join();
  EXPECT_EQ(job.worlds[0]->put("k", "v").code(), StatusCode::peer_dead);
  EXPECT_EQ(job.worlds[0]->add("c", 1).status().code(), StatusCode::peer_dead);
  EXPECT_EQ(job.worlds[0]->get("k", Deadline::never()).status().code(), StatusCode::peer_dead);
}

TEST(WorldFailure, ADeathConcernsEveryContextAReportOnlyItsOwn) {
  const Job job = job_of(2);
  job.worlds[0]->report_failure({mismatch("calls differ"), 1, 7});
  job.worlds[1]->report_failure({mismatch("too late"), 0, 7});
  for (const auto& world : job.worlds) {
    std::atomic<bool> told{false};
    const auto token = world->on_failure([&](const Failure&) { told = true; });
    ASSERT_TRUE(world->put("a round trip", "").is_ok());
    EXPECT_TRUE(told);
    EXPECT_FALSE(world->failure());
    EXPECT_FALSE(world->failure(8));
    ASSERT_TRUE(world->failure(7));
    EXPECT_EQ(world->failure(7)->status.message(), job.worlds[0]->failure(7)->status.message());
  }
  job.server->announce_death(1, "killed");
  EXPECT_EQ(wait_for_failure(*job.worlds[0]).status.code(), StatusCode::peer_dead);
  EXPECT_EQ(job.worlds[0]->failure(8)->culprit_rank, 1);
  EXPECT_EQ(job.worlds[0]->failure(7)->status.code(), StatusCode::mismatch);
}

TEST(WorldFailure, CallbacksComeOnceAndStopWithTheirToken) {
  const Job job = job_of(2);
  std::atomic<int> first{0};
  std::atomic<int> second{0};
  const auto token = job.worlds[0]->on_failure([&](const Failure&) { ++first; });
  auto dropped = job.worlds[0]->on_failure([&](const Failure&) { ++second; });
  dropped.reset();
  job.server->announce_death(1, "killed");
  wait_for_failure(*job.worlds[0]);
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 0);
  int late = 0;
  const auto late_token = job.worlds[0]->on_failure([&](const Failure&) { ++late; });
  EXPECT_EQ(late, 1);
}

TEST(WorldFailure, EverySubscriberHearsExactlyOnceWhateverTheTiming) {
  for (int round = 0; round < 200; ++round) {
    store::FailureBoard board;
    std::atomic<int> heard{0};
    std::shared_ptr<void> token;
    std::thread raiser([&] { board.raise({aborted("now"), -1, 0}); });
    token = board.subscribe([&](const Failure&) { ++heard; });
    raiser.join();
    EXPECT_EQ(heard, 1);
  }
}

TEST(WorldFailure, ACallbackMayDropItsOwnTokenAndTokensMayOutliveTheWorld) {
  std::shared_ptr<void> outlives;
  {
    const Job job = job_of(2);
    std::shared_ptr<void> self;
    std::atomic<int> calls{0};
    self = job.worlds[0]->on_failure([&](const Failure&) {
      ++calls;
      self.reset();
    });
    outlives = job.worlds[0]->on_failure([](const Failure&) {});
    job.server->announce_death(1, "killed");
    wait_for_failure(*job.worlds[0]);
    EXPECT_EQ(calls, 1);
  }
  outlives.reset();
}

TEST(WorldFailure, ANewEpochEndsTheOldAttempt) {
  const Job job = job_of(2);
  job.server->begin_epoch(2, 3);
  for (const auto& world : job.worlds) {
    const Failure failure = wait_for_failure(*world);
    EXPECT_EQ(failure.status.code(), StatusCode::stale_epoch);
    EXPECT_NE(failure.status.message().find("epoch 2"), std::string::npos);
    EXPECT_NE(failure.status.message().find("epoch 1"), std::string::npos);
  }
}

TEST(WorldFailure, AStoreThatClosesInOrderSaysSo) {
  Job job = job_of(1);
  StoreServerOptions options;
  options.world_size = 1;
  options.host_rank = 0;
  auto server = StoreServer::start(options).value();
  WorldOptions world_options;
  world_options.rank = 0;
  world_options.size = 1;
  world_options.epoch = 1;
  world_options.store_address = server->address();
  const auto world = World::join(world_options).value();
  server.reset();
  const Status put = world->put("k", "v");
  EXPECT_EQ(put.code(), StatusCode::unavailable);
  EXPECT_NE(put.message().find(world->peer(0).to_string()), std::string::npos) << put.message();
  EXPECT_FALSE(world->failure());
  EXPECT_FALSE(world->collect_activities(soon())[0]);
}

TEST(WorldFailure, TheServerKnowsWhenAllHaveLeft) {
  Job job = job_of(3);
  EXPECT_FALSE(job.server->wait_until_empty(Deadline::after_ms(5)));
  std::thread leaver([&] { job.worlds.clear(); });
  EXPECT_TRUE(job.server->wait_until_empty(soon()));
  leaver.join();
}

}  // namespace
}  // namespace trireme
