// Fabric: every path of one rank. Creates the transports of a table, exchanges their
// advertisements, picks one per peer and opens channels on it.
//
// The choice is a function of values both ends know, so both make the same one; it can
// be forced by TRIREME_TRANSPORT. explain() says every path considered and why.
//
// A fabric has one service thread, which sleeps while nothing happens. Destroy the
// channels before their fabric: what they still buffered is flushed for a few seconds.
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
  std::span<const TransportFactory> transports;  // transport_table(), or a part of it.
  // A name of the table. "": what TRIREME_TRANSPORT says, or the best one when unset.
  std::string forced_transport;
  std::size_t channel_bytes = 256 * 1024;  // Rounded up to a power of two.
  std::int64_t exchange_timeout_ms = 60'000;
};

struct PathChoice {
  std::string transport;  // "" when no path exists.
  struct Candidate {
    std::string transport;
    Reach reach;
  };
  std::vector<Candidate> candidates;
  std::string reason;  // One sentence: chosen because ...
};

// The ranks of this rank's host, and the processors that any of them may run on.
struct HostLoad {
  int ranks = 0;
  int cpus = 0;
  bool crowded() const { return ranks > cpus; }
};

class Fabric {
 public:
  // Collective over the world: all ranks call it. Errors: unavailable naming two ranks
  // between which no transport works, with every reason; mismatch when two ranks force
  // different transports; invalid_argument when the forced one is not in the table.
  static Result<std::unique_ptr<Fabric>> create(std::shared_ptr<World> world, const FabricOptions& options);
  ~Fabric();

  // Errors: invalid_argument when `peer` is this rank or none of the world's; what the
  // transport says (peer_dead, resource_exhausted, ...).
  Result<std::unique_ptr<Channel>> open_channel(int peer, std::uint64_t context);
  // Whether the path to the peer is one on which the two can map each other's memory.
  // REQUIRES: peer is another rank of the world.
  bool shares_memory(int peer) const;
  // Gives `own` from `offset` on, and gets the peer's (peer_memory.h). Errors: what the
  // transport says. REQUIRES: shares_memory(peer).
  Result<std::shared_ptr<PeerMemory>> exchange_memory(int peer, std::uint64_t context, const SharedHeap& own,
                                                      std::size_t offset);
  // REQUIRES: peer is another rank of the world.
  const PathChoice& choice(int peer) const;
  std::string explain(int peer) const;  // Several lines, for people.
  Doorbell& doorbell();
  HostLoad host() const;
  World& world();

 private:
  struct Impl;
  explicit Fabric(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme
