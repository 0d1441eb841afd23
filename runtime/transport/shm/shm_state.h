// ShmState: what the shm transport and its handlers on the service thread share: the
// socket where peers introduce themselves, and those who have come.
// Thread safety: all methods.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/platform/api/process.h"
#include "runtime/platform/api/sockets.h"
#include "runtime/transport/api/handshake.h"
#include "runtime/transport/api/meeting.h"
#include "runtime/transport/api/transport.h"
#include "runtime/transport/shm/shm_link.h"
#include "runtime/transport/shm/shm_message.h"

namespace trireme {

struct ShmArrival {
  std::shared_ptr<SharedHeap> heap;
  RingPair* pair = nullptr;
  PeerBell bell;
};

// Memory that a peer has given.
struct MemoryArrival {
  std::shared_ptr<SharedHeap> heap;
  std::size_t offset = 0;
  PeerBell bell;
};

// What the transport's handlers share; they keep it alive while they run.
struct ShmState : std::enable_shared_from_this<ShmState> {
  TransportEnvironment surroundings;
  std::string token = random_bytes(kShmTokenBytes);
  Listener listener;
  Reactor::Token listener_token = 0;
  Meeting<ShmArrival> meeting;
  Meeting<MemoryArrival> memories;

  void accept_all();
  // Descriptors have run out, or the like: again a little later, not in a tight loop.
  void retry_accept(const Status& status);
  void on_incoming(Reactor::Token token, const std::shared_ptr<Socket>& socket);
  Status answer(Socket& socket, ShmMessage message);
  Result<ShmArrival> map_arrival(const ShmHello& hello, ShmMessage message) const;
  Result<MemoryArrival> map_memory(const ShmHello& hello, ShmMessage message) const;
  Result<std::shared_ptr<Socket>> connect(const PeerInfo& peer, std::string_view address) const;
  Status send_hello(const Socket& socket, ShmPurpose purpose, const SharedHeap& heap, std::size_t offset,
                    const ChannelKey& key, std::string_view peer_token) const;
  // Hands the peer's answer, or the Status of its absence, to `take`.
  using TakeReply = std::function<void(const ShmState& self, Result<ShmMessage> reply)>;
  Status await_reply(std::shared_ptr<Socket> socket, const ChannelKey& key, TakeReply take);
  Status take_reply(ShmLink& link, ShmMessage message) const;
  void expect(const std::shared_ptr<ShmLink>& link, const ChannelKey& key);
};

}  // namespace trireme
