// Transport: one way to move bytes between two ranks. Siblings live in shm/, tcp/, ...
// and never know each other; the selector (selector.h) picks one per pair by table.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <trireme/base/status.h>
#include <trireme/rendezvous/world.h>

#include "runtime/transport/api/channel.h"
#include "runtime/transport/api/doorbell.h"
#include "runtime/transport/api/peer_memory.h"
#include "runtime/transport/api/peer_watch.h"
#include "runtime/transport/api/reactor.h"

namespace trireme {

// Can this transport carry a pair, how well, and why (or why not).
struct Reach {
  bool possible = false;
  double bytes_per_second = 0;  // Expected; 0 when not possible.
  double latency_us = 0;
  std::string reason;  // "same host identity", "hosts differ: no shared memory"
};

// What a transport needs of its surroundings.
struct TransportEnvironment {
  std::shared_ptr<World> world;
  std::function<void()> ring_doorbell;  // Wakes this rank; callable from any thread.
  DoorbellWord* doorbell_word = nullptr;
  int doorbell_heap_fd = -1;  // The memfd that holds the word, for peers to map.
  std::size_t doorbell_heap_bytes = 0;
  std::size_t doorbell_offset = 0;
  bool forced = false;               // The user asks for this transport and no other.
  std::size_t channel_bytes = 0;     // Buffering per channel and direction; a power of two.
  std::shared_ptr<Reactor> reactor;  // The fabric's service thread.
  std::shared_ptr<PeerWatch> peers;  // Who has died.
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::string_view name() const = 0;
  virtual TransportCapabilities capabilities() const = 0;
  // What peers need to reach this rank ("10.0.0.2:4711"); exchanged once at start-up.
  virtual std::string advertisement() const = 0;
  virtual Reach reach(const PeerInfo& peer, std::string_view peer_advertisement) const = 0;
  // The channel to `peer` for `context`; both sides call it, in any order, and the
  // channel moves bytes once both have. Never blocks on the peer.
  virtual Result<std::unique_ptr<Channel>> open(const PeerInfo& peer, std::string_view peer_advertisement,
                                                std::uint64_t context) = 0;
  // What connecting to that rank showed (which address answered, which did not), for
  // people; "" while nothing is known beyond reach().
  virtual std::string report(int /*peer*/) const { return {}; }
  // Null where peers cannot map each other's memory.
  virtual MemoryExchange* memory_exchange() { return nullptr; }
};

struct TransportFactory {
  std::string_view name;
  Result<std::unique_ptr<Transport>> (*create)(const TransportEnvironment& environment);
};

}  // namespace trireme
