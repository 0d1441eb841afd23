// Opening a channel: the lower rank makes the rings, connects to the abstract socket the
// higher rank advertised and sends a hello with the two descriptors (rings, own
// doorbell); it may write into the rings at once. The higher rank's service thread maps
// them, answers with the descriptor of its doorbell, and hands the link to the channel
// opened there, or keeps it until one is. Each side writes one message: nobody waits.
// Memory is exchanged in the same way, but that both ranks send a hello, each with its heap.
#include "runtime/transport/shm/api/shm_transport.h"

#include <sys/epoll.h>

#include <fmt/core.h>

#include "runtime/platform/api/process.h"
#include "runtime/transport/api/host_scope.h"
#include "runtime/transport/shm/shm_channel.h"
#include "runtime/transport/shm/shm_state.h"

namespace trireme {
namespace {

class ShmTransport final : public Transport, public MemoryExchange {
 public:
  explicit ShmTransport(std::shared_ptr<ShmState> state) : state_(std::move(state)) {}
  ~ShmTransport() override { state_->surroundings.reactor->forget(state_->listener_token); }

  std::string_view name() const override { return "shm"; }
  TransportCapabilities capabilities() const override {
    return {.crosses_hosts = false, .in_place = true, .notices_peer_death = true};
  }
  // "unix:@trireme-1f2e...;TOKEN;SCOPE", the token as 32 raw bytes.
  std::string advertisement() const override {
    return state_->listener.address().text + ";" + state_->token + ";" + network_scope();
  }
  Reach reach(const PeerInfo& peer, std::string_view peer_advertisement) const override;
  Result<std::unique_ptr<Channel>> open(const PeerInfo& peer, std::string_view peer_advertisement,
                                        std::uint64_t context) override;
  MemoryExchange* memory_exchange() override { return this; }
  Result<std::shared_ptr<PeerMemory>> exchange(const PeerInfo& peer, std::string_view peer_advertisement,
                                               std::uint64_t context, const SharedHeap& own,
                                               std::size_t offset) override;

 private:
  Status introduce(const std::shared_ptr<ShmLink>& link, const PeerInfo& peer, std::string_view peer_advertisement,
                   const ChannelKey& key);
  Status give(const std::shared_ptr<PeerMemory>& memory, const PeerInfo& peer, std::string_view peer_advertisement,
              const ChannelKey& key, const SharedHeap& own, std::size_t offset);

  std::shared_ptr<ShmState> state_;
};

// The three parts of an advertisement; the token may hold any byte, so it goes by length.
struct ShmEndpoint {
  std::string_view address;
  std::string_view token;
  std::string_view scope;

  static Result<ShmEndpoint> parse(std::string_view text) {
    const std::size_t end = text.find(';');
    if (end == std::string_view::npos || text.size() < end + kShmTokenBytes + 2) {
      return data_loss("shm transport: malformed advertisement of " + std::to_string(text.size()) + " bytes");
    }
    return ShmEndpoint{text.substr(0, end), text.substr(end + 1, kShmTokenBytes),
                       text.substr(end + kShmTokenBytes + 2)};
  }
};

Reach ShmTransport::reach(const PeerInfo& peer, std::string_view peer_advertisement) const {
  Reach reach;
  const World& world = *state_->surroundings.world;
  const auto endpoint = ShmEndpoint::parse(peer_advertisement);
  if (peer.host_identity != world.peer(world.rank()).host_identity) {
    reach.reason = "hosts differ: no shared memory";
  } else if (!endpoint.is_ok()) {
    reach.reason = endpoint.status().message();
  } else if (endpoint->scope != network_scope()) {
    reach.reason = "network namespaces differ: descriptors cannot be passed";
  } else {
    reach = {.possible = true, .bytes_per_second = 8e9, .latency_us = 1, .reason = "same host identity"};
  }
  return reach;
}

Status ShmTransport::introduce(const std::shared_ptr<ShmLink>& link, const PeerInfo& peer,
                               std::string_view peer_advertisement, const ChannelKey& key) {
  const std::size_t capacity = state_->surroundings.channel_bytes;
  // A page more than the rings: for what the heap keeps itself.
  TRIREME_ASSIGN_OR_RETURN(auto heap, SharedHeap::create("trireme-channel", ring_pair_bytes(capacity) + 4096));
  TRIREME_ASSIGN_OR_RETURN(void* memory, heap->allocate(ring_pair_bytes(capacity)));
  RingPair* pair = make_ring_pair(memory, capacity);
  link->set_rings(heap, pair);
  TRIREME_ASSIGN_OR_RETURN(const ShmEndpoint endpoint, ShmEndpoint::parse(peer_advertisement));
  TRIREME_ASSIGN_OR_RETURN(auto socket, state_->connect(peer, endpoint.address));
  const auto offset = static_cast<std::size_t>(static_cast<std::byte*>(memory) - heap->base());
  TRIREME_RETURN_IF_ERROR(state_->send_hello(*socket, ShmPurpose::channel, *heap, offset, key, endpoint.token));
  heap->close_descriptor();  // The peer's copy travels; thousands of channels must not use up our descriptors.
  return state_->await_reply(std::move(socket), key, [link](const ShmState& state, Result<ShmMessage> reply) {
    Status status = reply.is_ok() ? state.take_reply(*link, std::move(reply).value()) : reply.status();
    if (!status.is_ok()) link->fail(std::move(status));
    link->ring_peer();  // What was written before the bell was known.
  });
}

// Both ranks of a pair give, so their exchanges are counted at both ends alike.
Result<std::shared_ptr<PeerMemory>> ShmTransport::exchange(const PeerInfo& peer, std::string_view peer_advertisement,
                                                           std::uint64_t context, const SharedHeap& own,
                                                           std::size_t offset) {
  const ChannelKey key = state_->memories.next_key(peer.rank, context);
  auto memory = std::make_shared<PeerMemory>();
  state_->memories.expect(key, [memory, ring = state_->surroundings.ring_doorbell](MemoryArrival arrival) {
    memory->arrive(std::move(arrival.heap), arrival.offset, std::move(arrival.bell));
    ring();
  });
  Status given = give(memory, peer, peer_advertisement, key, own, offset);
  if (given.is_ok()) return memory;
  if (given.code() == StatusCode::peer_dead) return given;  // Says whom it is about.
  return given.with_context(fmt::format("exchanging memory of context {} with {}", context, peer.to_string()));
}

Status ShmTransport::give(const std::shared_ptr<PeerMemory>& memory, const PeerInfo& peer,
                          std::string_view peer_advertisement, const ChannelKey& key, const SharedHeap& own,
                          std::size_t offset) {
  TRIREME_ASSIGN_OR_RETURN(const ShmEndpoint endpoint, ShmEndpoint::parse(peer_advertisement));
  TRIREME_ASSIGN_OR_RETURN(auto socket, state_->connect(peer, endpoint.address));
  TRIREME_RETURN_IF_ERROR(state_->send_hello(*socket, ShmPurpose::memory, own, offset, key, endpoint.token));
  return state_->await_reply(std::move(socket), key, [memory](const ShmState&, Result<ShmMessage> message) {
    // A peer that is gone already has taken what it wanted, or its own memory does not come.
    if (!message.is_ok()) return;
    const Result<ShmReply> reply = ShmReply::decode(message->text);
    if (!reply.is_ok()) return memory->fail(reply.status());
    if (!reply->refusal.empty()) {
      memory->fail(unavailable("shm transport: the peer refused the memory: " + reply->refusal));
    }
  });
}

Result<std::unique_ptr<Channel>> ShmTransport::open(const PeerInfo& peer, std::string_view peer_advertisement,
                                                    std::uint64_t context) {
  const bool lower = state_->surroundings.world->rank() < peer.rank;
  const ChannelKey key = state_->meeting.next_key(peer.rank, context);
  auto link = std::make_shared<ShmLink>();
  if (lower) {
    Status status = introduce(link, peer, peer_advertisement, key);
    if (status.code() == StatusCode::peer_dead) return status;  // Says whom it is about.
    if (!status.is_ok()) return status.with_context(fmt::format("opening context {} to {}", context, peer.to_string()));
  } else {
    state_->expect(link, key);
  }
  return std::unique_ptr<Channel>(
      std::make_unique<ShmChannel>(std::move(link), state_->surroundings.peers, peer.rank, context, lower ? 0 : 1));
}

}  // namespace

Result<std::unique_ptr<Transport>> create_shm_transport(const TransportEnvironment& environment) {
  auto state = std::make_shared<ShmState>();
  state->surroundings = environment;
  TRIREME_ASSIGN_OR_RETURN(const SocketAddress address, SocketAddress::parse("unix:@trireme-" + random_hex(16)));
  TRIREME_ASSIGN_OR_RETURN(state->listener, Listener::listen(address));
  TRIREME_ASSIGN_OR_RETURN(state->listener_token,
                           environment.reactor->watch(state->listener.fd(), 0,
                                                      [state](Reactor::Token, std::uint32_t) { state->accept_all(); }));
  environment.reactor->arm(state->listener_token, EPOLLIN);
  return std::unique_ptr<Transport>(std::make_unique<ShmTransport>(std::move(state)));
}

}  // namespace trireme
