// Ranks as real processes that die, stop, or lose their store.
#include <csignal>
#include <memory>

#include <sys/mman.h>

#include "runtime/rendezvous/api/store_server.h"
#include "tests/runtime/rendezvous/rank_processes.h"

namespace trireme {
namespace {

const std::string kRankProgram = std::string(TRIREME_BINARY_DIR) + "/tests/test_rendezvous_rank";

using Ranks = std::vector<std::unique_ptr<RankProcess>>;

std::vector<std::string> place(int rank, int size, const std::string& store) {
  return {"TRIREME_RANK=" + std::to_string(rank), "TRIREME_WORLD_SIZE=" + std::to_string(size),
          "TRIREME_STORE=" + store, "TRIREME_JOB_ID=process-test", "TRIREME_EPOCH=1"};
}

Ranks start_ranks(int size, const std::string& store, const std::vector<std::string>& command,
                  const std::vector<std::string>& more = {}, std::vector<int> keep_fds = {}) {
  Ranks ranks;
  for (int rank = 0; rank < size; ++rank) {
    std::vector<std::string> variables = place(rank, size, store);
    variables.insert(variables.end(), more.begin(), more.end());
    ranks.push_back(std::make_unique<RankProcess>(command, variables, keep_fds));
  }
  return ranks;
}

std::unique_ptr<StoreServer> start_store(int size, const std::string& secret = "") {
  StoreServerOptions options;
  options.job_id = "process-test";
  options.secret = secret;
  options.world_size = size;
  return StoreServer::start(options).value();
}

TEST(Processes, TheSecretComesFromADescriptor) {
  const UniqueFd secret(::memfd_create("secret", 0));
  ASSERT_EQ(::write(secret.get(), "hidden", 6), 6);
  const auto store = start_store(3, "hidden");
  const Ranks ranks = start_ranks(3, store->address(), {kRankProgram, "exchange"},
                                  {"TRIREME_SECRET_FD=" + std::to_string(secret.get())}, {secret.get()});
  for (const auto& rank : ranks) EXPECT_EQ(rank->finish(), 0) << rank->output();
}

TEST(Processes, AKilledRankIsNamedByAllOthers) {
  const auto store = start_store(4);
  const Ranks ranks = start_ranks(4, store->address(), {kRankProgram, "kill", "2"});
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(ranks[rank]->finish(), rank == 2 ? 137 : 0) << ranks[rank]->output();
    if (rank == 2) continue;
    EXPECT_NE(ranks[rank]->output().find("culprit 2"), std::string::npos) << ranks[rank]->output();
    EXPECT_NE(ranks[rank]->output().find("pid " + std::to_string(ranks[2]->child().pid()) + ") died"),
              std::string::npos);
  }
}

TEST(Processes, AStoppedRankDoesNotAnswerAndIsNotDead) {
  const auto store = start_store(3);
  const Ranks ranks = start_ranks(3, store->address(), {kRankProgram, "stop", "1"});
  for (const auto& rank : ranks) EXPECT_EQ(rank->finish(), 0) << rank->output();
  EXPECT_NE(ranks[0]->output().find("silent: rank 1"), std::string::npos) << ranks[0]->output();
}

TEST(Processes, AVanishedCoordinatorIsNamedAfterItsGrace) {
  RankProcess coordinator({kRankProgram, "serve", "2"}, {});
  const std::string address = "unix:@trireme-serve-" + std::to_string(coordinator.child().pid());
  const Ranks ranks = start_ranks(2, address, {kRankProgram, "orphan", std::to_string(coordinator.child().pid())},
                                  {"TRIREME_COORDINATOR_GRACE_MS=300"});
  for (const auto& rank : ranks) {
    EXPECT_EQ(rank->finish(), 0) << rank->output();
    EXPECT_NE(rank->output().find("the job's coordinator is gone"), std::string::npos) << rank->output();
    EXPECT_NE(rank->output().find(address), std::string::npos);
    EXPECT_NE(rank->output().find("culprit -1"), std::string::npos);
  }
  EXPECT_EQ(coordinator.finish(), 137);
}

}  // namespace
}  // namespace trireme
