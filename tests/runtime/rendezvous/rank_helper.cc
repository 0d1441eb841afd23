// A rank as a separate process, for the tests: joins, prints one line, and does what its
// first argument says. Exit code 0 when all went as the mode expects, 3 with the error on
// stderr when joining failed, 4 when something else did.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <unistd.h>

#include <trireme/rendezvous/world.h>

#include "runtime/rendezvous/api/store_server.h"

namespace trireme {
namespace {

int fail(const Status& status) {
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  return 4;
}

std::vector<int> everyone(const World& world) {
  std::vector<int> ranks;
  for (int rank = 0; rank < world.size(); ++rank) ranks.push_back(rank);
  return ranks;
}

// Every rank puts its pid; all compare with the table of ranks.
int exchange_pids(World& world) {
  const auto values = world.exchange("pids", everyone(world), std::to_string(::getpid()), Deadline::after_ms(60'000));
  if (!values.is_ok()) return fail(values.status());
  for (int rank = 0; rank < world.size(); ++rank) {
    if ((*values)[rank] != std::to_string(world.peer(rank).pid)) return fail(data_loss("a pid differs from the table"));
  }
  return 0;
}

// Waits for a key nobody puts, and prints how that ended.
int wait_for_failure(World& world) {
  const auto value = world.get("never", Deadline::after_ms(60'000));
  const auto failure = world.failure();
  std::printf("ended: %s | failure: %s, culprit %d\n", value.status().to_string().c_str(),
              failure ? failure->status.to_string().c_str() : "none", failure ? failure->culprit_rank : -2);
  std::fflush(stdout);
  return failure ? 0 : 4;
}

// Returns on rank `who` when all other ranks have said that they are past the exchange.
int wait_for_others(World& world, int who) {
  if (world.rank() != who) {
    const Status said = world.put("past " + std::to_string(world.rank()), "");
    return said.is_ok() ? 0 : fail(said);
  }
  for (int rank = 0; rank < world.size(); ++rank) {
    if (rank == who) continue;
    const auto past = world.get("past " + std::to_string(rank), Deadline::after_ms(60'000));
    if (!past.is_ok()) return fail(past.status());
  }
  return 0;
}

// Rank `who` kills itself; the others wait and tell what they learnt.
int lose_one(World& world, int who) {
  if (int error = exchange_pids(world); error != 0) return error;
  // A reply to the last put may be lost with a store that dies at once: that is a failure too.
  if (int error = wait_for_others(world, who); error != 0 && !world.failure()) return error;
  if (world.rank() == who) ::raise(SIGKILL);
  return wait_for_failure(world);
}

// Rank `who` stops. Rank 0 asks what all do until exactly `who` does not answer, wakes it,
// and all go on together: a stopped rank is silent, not dead.
int stop_one(World& world, int who) {
  if (world.rank() == who) ::raise(SIGSTOP);
  for (bool alone_silent = false; world.rank() == 0 && !alone_silent;) {
    const auto activities = world.collect_activities(Deadline::after_ms(200));
    alone_silent = true;
    for (int rank = 0; rank < world.size(); ++rank) alone_silent &= activities[rank].has_value() == (rank != who);
    if (!alone_silent) continue;
    std::printf("silent: rank %d\n", who);
    ::kill(static_cast<pid_t>(world.peer(who).pid), SIGCONT);
  }
  return exchange_pids(world);
}

// Hosts the store of `size` ranks until it is killed.
int serve(int size) {
  StoreServerOptions options;
  options.listen_address = "unix:@trireme-serve-" + std::to_string(::getpid());
  options.job_id = "process-test";
  options.world_size = size;
  const auto server = StoreServer::start(options);
  if (!server.is_ok()) return fail(server.status());
  while (true) ::pause();
}

// Rank 0 kills the process that hosts the store; all tell what they learnt.
int become_orphan(World& world, int coordinator) {
  if (int error = exchange_pids(world); error != 0) return error;
  if (int error = wait_for_others(world, 0); error != 0 && !world.failure()) return error;
  if (world.rank() == 0) ::kill(coordinator, SIGKILL);
  return wait_for_failure(world);
}

int run(const std::string& mode, int argument) {
  if (mode == "serve") return serve(argument);
  auto joined = World::join();
  if (!joined.is_ok()) {
    std::fprintf(stderr, "%s\n", joined.status().to_string().c_str());
    return 3;
  }
  World& world = **joined;
  std::printf("rank %d of %d local %d of %d node %d of %d job %s\n", world.rank(), world.size(), world.local_rank(),
              world.local_size(), world.node_rank(), world.node_count(), world.job_id().c_str());
  std::fflush(stdout);
  if (mode == "exchange") return exchange_pids(world);
  if (mode == "kill") return lose_one(world, argument);
  if (mode == "stop") return stop_one(world, argument);
  if (mode == "orphan") return become_orphan(world, argument);
  std::fprintf(stderr, "unknown mode %s\n", mode.c_str());
  return 4;
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  return trireme::run(argc > 1 ? argv[1] : "exchange", argc > 2 ? std::atoi(argv[2]) : -1);
}
