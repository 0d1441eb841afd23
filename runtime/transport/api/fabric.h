// Fabric: every path of one rank. Creates the transports of a table, exchanges their
// advertisements, picks one per peer and opens channels on it.
//
// The choice is a function of values both ends know, so both make the same one; it can
// be forced by TRIREME_TRANSPORT. explain() says every path considered and why.
// Thread safety: open_channel and explain from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <trireme/base/status.h>
#include <trireme/memory/shared_heap.h>
#include <trireme/rendezvous/world.h>

#include "runtime/transport/api/transport.h"

namespace trireme {

struct FabricOptions {
  std::span<const TransportFactory> transports;  // In order of preference at equal figures.
  std::string forced_transport;                  // "" chooses; else a name of the table.
  std::size_t channel_bytes = 256 * 1024;
};

struct PathChoice {
  std::string transport;           // "" when no path exists.
  struct Candidate {
    std::string transport;
    Reach reach;
  };
  std::vector<Candidate> candidates;
  std::string reason;              // One sentence: chosen because ...
};

class Fabric {
 public:
  // Collective over the world: all ranks call it. Errors: unavailable naming two ranks
  // between which no transport works, with every reason.
  static Result<std::unique_ptr<Fabric>> create(std::shared_ptr<World> world, const FabricOptions& options);
  ~Fabric();

  Result<std::unique_ptr<Channel>> open_channel(int peer, std::uint64_t context);
  const PathChoice& choice(int peer) const;
  std::string explain(int peer) const;  // Several lines, for people.
  Doorbell& doorbell();
  World& world();

 private:
  struct Impl;
  explicit Fabric(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme
