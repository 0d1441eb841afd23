// One rank as a process: test_contract_rank TRANSPORT RANK SIZE STORE SECRET
// Exchanges bytes with every other rank, prints "ready", then waits in a receive from
// rank 1 until that channel breaks, and prints the Status.
// Exit codes: 0 the break was named as peer_dead of rank 1; 1 anything else.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <trireme/rendezvous/world.h>

#include "runtime/transport/table/api/transport_table.h"
#include "tests/contract/support.h"

namespace trireme::test {
namespace {

Status talk(Fabric& fabric, std::vector<std::unique_ptr<Channel>>& channels) {
  World& world = fabric.world();
  for (int peer = 0; peer < world.size(); ++peer) {
    channels.emplace_back();
    if (peer == world.rank()) continue;
    TRIREME_ASSIGN_OR_RETURN(channels.back(), fabric.open_channel(peer, 7));
  }
  const auto out = pattern(100'000, 1);
  for (int peer = 0; peer < world.size(); ++peer) {
    if (peer == world.rank()) continue;
    std::vector<std::byte> in(out.size());
    TRIREME_RETURN_IF_ERROR(exchange_all(fabric.doorbell(), *channels[static_cast<std::size_t>(peer)], out, in));
    if (in != out) return data_loss("bytes differ from rank " + std::to_string(peer));
  }
  return Status::ok();
}

Status run(char** arguments) {
  WorldOptions options;
  options.rank = std::atoi(arguments[2]);
  options.size = std::atoi(arguments[3]);
  options.store_address = arguments[4];
  options.secret = arguments[5];
  options.job_id = "contract";
  options.epoch = 1;
  TRIREME_ASSIGN_OR_RETURN(std::shared_ptr<World> world, World::join(options));
  FabricOptions fabric_options;
  fabric_options.transports = transport_table();
  fabric_options.forced_transport = arguments[1];
  TRIREME_ASSIGN_OR_RETURN(std::unique_ptr<Fabric> fabric, Fabric::create(world, fabric_options));
  std::vector<std::unique_ptr<Channel>> channels;
  TRIREME_RETURN_IF_ERROR(talk(*fabric, channels));
  std::puts("ready");
  std::fflush(stdout);
  Channel& doomed = *channels[world->rank() == 1 ? 0 : 1];
  std::byte byte{};
  return receive_all(fabric->doorbell(), doomed, std::span(&byte, 1));
}

}  // namespace
}  // namespace trireme::test

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: test_contract_rank TRANSPORT RANK SIZE STORE SECRET\n");
    return 2;
  }
  const trireme::Status status = trireme::test::run(argv);
  std::printf("%s\n", status.to_string().c_str());
  const bool named = status.message().find("rank 1 ") != std::string::npos;
  return status.code() == trireme::StatusCode::peer_dead && named ? 0 : 1;
}
