#include "runtime/rendezvous/api/local_worlds.h"

#include <thread>

#include <fmt/core.h>

#include <trireme/base/check.h>

#include "runtime/platform/api/process.h"
#include "runtime/rendezvous/api/store_server.h"

namespace trireme {
namespace {

// Keeps the server alive for as long as its World.
struct WorldAndServer {
  std::shared_ptr<StoreServer> server;
  std::shared_ptr<World> world;  // Destroyed first.
};

WorldOptions world_options(int rank, int size, const LocalWorldsOptions& options, const StoreServer& server,
                           const StoreServerOptions& server_options) {
  WorldOptions world;
  world.rank = rank;
  world.size = size;
  world.store_address = server.address();
  world.job_id = server_options.job_id;
  world.secret = server_options.secret;
  world.epoch = options.epoch;
  world.join_timeout_ms = options.join_timeout_ms;
  if (options.ranks_per_host > 0) world.host_identity = fmt::format("local-host-{}", rank / options.ranks_per_host);
  return world;
}

}  // namespace

Result<std::vector<std::shared_ptr<World>>> make_local_worlds(int size, const LocalWorldsOptions& options) {
  TRIREME_CHECK(size >= 1, "a world has at least one rank");
  StoreServerOptions server_options;
  server_options.listen_address = options.listen_address;
  server_options.job_id = "local-" + random_hex(8);
  server_options.secret = random_hex(16);
  server_options.world_size = size;
  server_options.epoch = options.epoch;
  TRIREME_ASSIGN_OR_RETURN(std::shared_ptr<StoreServer> server, StoreServer::start(server_options));
  // Joining waits for all, so each rank joins on a thread of its own.
  std::vector<std::optional<Result<std::shared_ptr<World>>>> joined(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back(
        [&, rank] { joined[rank].emplace(World::join(world_options(rank, size, options, *server, server_options))); });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::shared_ptr<World>> worlds;
  for (auto& result : joined) {
    if (!result->is_ok()) return result->status();
    auto both = std::make_shared<WorldAndServer>(WorldAndServer{server, std::move(**result)});
    worlds.emplace_back(both, both->world.get());
  }
  if (options.server != nullptr) *options.server = server;
  return worlds;
}

}  // namespace trireme
