// Processes that fork while a store of theirs serves: what its thread had locked at that
// moment would stay locked in the child for ever. Our own: a rank forked after its parent
// had made the job's unique id hung at its first handshake.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "runtime/rendezvous/api/store_server.h"

namespace trireme {
namespace {

WorldOptions rank_of(const StoreServer& server, int rank, int size) {
  WorldOptions options;
  options.job_id = "forks";
  options.secret = "secret";
  options.epoch = 1;
  options.store_address = server.address();
  options.rank = rank;
  options.size = size;
  return options;
}

// How a forked child that does `act` ends, within a minute.
template <typename Act>
int end_of_child(const Act& act) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(act() ? 0 : 1);
  for (int i = 0; i < 60'000; ++i) {
    int state = 0;
    if (::waitpid(child, &state, WNOHANG) == child) return WIFEXITED(state) ? WEXITSTATUS(state) : 128;
    ::usleep(1000);  // Polls; nothing depends on it.
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return -1;
}

TEST(Fork, ChildrenOfABusyStoreMeetElsewhere) {
  const auto start = [](int size) {
    StoreServerOptions options;
    options.job_id = "forks";
    options.secret = "secret";
    options.world_size = size;
    return StoreServer::start(options).value();
  };
  // A stranger keeps this store at its cryptography: it is challenged, and fails.
  const auto busy = start(2);
  const pid_t stranger = ::fork();
  while (stranger == 0) {
    WorldOptions options = rank_of(*busy, 0, 2);
    options.secret = "wrong";
    if (World::join(options).is_ok()) ::_exit(1);
  }
  for (int i = 0; i < 100; ++i) {
    const int end = end_of_child([&] {
      const auto own = start(1);
      return World::join(rank_of(*own, 0, 1)).is_ok();
    });
    EXPECT_EQ(end, 0) << "child " << i;
    if (end != 0) break;
  }
  ::kill(stranger, SIGKILL);
  int state = 0;
  ::waitpid(stranger, &state, 0);
  EXPECT_TRUE(WIFSIGNALED(state)) << "the stranger was let in";
}

}  // namespace
}  // namespace trireme
