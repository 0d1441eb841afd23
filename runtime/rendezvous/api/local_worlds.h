// Several ranks in one process: what tests and the threads-as-ranks mode of benchmarks use.
//
// The Worlds meet at a StoreServer in this process, over loopback, exactly as separate
// processes would; the server lives as long as any of the Worlds. Each World has its own
// service thread. Thread safety: a free function; the Worlds are as World says.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <trireme/base/status.h>
#include <trireme/rendezvous/world.h>

namespace trireme {

class StoreServer;

struct LocalWorldsOptions {
  // 0: all on one host. k: ranks 0..k-1 claim one host identity, k..2k-1 the next, ...
  int ranks_per_host = 0;
  std::int64_t epoch = 1;
  std::int64_t join_timeout_ms = 60'000;
  std::string listen_address = "127.0.0.1:0";
  // When set, receives the server, to announce deaths or begin epochs by hand.
  std::shared_ptr<StoreServer>* server = nullptr;
};

// World r of the result is rank r. Errors: what StoreServer::start and World::join return.
// REQUIRES: size >= 1.
Result<std::vector<std::shared_ptr<World>>> make_local_worlds(int size, const LocalWorldsOptions& options = {});

}  // namespace trireme
