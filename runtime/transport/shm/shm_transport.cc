// Opening a channel: the lower rank makes the rings, connects to the abstract socket the
// higher rank advertised and sends a hello with the two descriptors (rings, own
// doorbell); it may write into the rings at once. The higher rank's service thread maps
// them, answers with the descriptor of its doorbell, and hands the link to the channel
// opened there, or keeps it until one is. Each side writes one message: nobody waits.
#include "runtime/transport/shm/api/shm_transport.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <mutex>

#include <fmt/core.h>

#include <trireme/telemetry/log.h>

#include "runtime/platform/api/process.h"
#include "runtime/platform/api/sockets.h"
#include "runtime/transport/api/handshake.h"
#include "runtime/transport/api/host_scope.h"
#include "runtime/transport/api/meeting.h"
#include "runtime/transport/shm/shm_channel.h"
#include "runtime/transport/shm/shm_message.h"

namespace trireme {
namespace {

constexpr std::uint64_t kHelloTimeoutMs = 10'000;
constexpr std::uint64_t kConnectTimeoutMs = 1'000;
constexpr std::uint64_t kAcceptRetryMs = 100;

struct ShmArrival {
  std::shared_ptr<SharedHeap> heap;
  RingPair* pair = nullptr;
  PeerBell bell;
};

// Maps `fd` and finds `length` bytes at `offset` in it, suitably aligned.
Result<std::pair<std::shared_ptr<SharedHeap>, void*>> map_peer_memory(UniqueFd fd, std::uint64_t heap_bytes,
                                                                      std::uint64_t offset, std::uint64_t length) {
  if (offset % 64 != 0 || offset > heap_bytes || heap_bytes - offset < length) {
    return data_loss("shm transport: a peer's memory is not where its message says");
  }
  TRIREME_ASSIGN_OR_RETURN(std::shared_ptr<SharedHeap> heap, SharedHeap::attach(fd.release(), heap_bytes));
  void* memory = heap->base() + offset;
  return std::pair(std::move(heap), memory);
}

Result<PeerBell> map_bell(UniqueFd fd, std::uint64_t heap_bytes, std::uint64_t offset) {
  TRIREME_ASSIGN_OR_RETURN(auto mapped, map_peer_memory(std::move(fd), heap_bytes, offset, sizeof(DoorbellWord)));
  return PeerBell{std::move(mapped.first), static_cast<DoorbellWord*>(mapped.second)};
}

// What the transport's handlers share; they keep it alive while they run.
struct ShmState : std::enable_shared_from_this<ShmState> {
  TransportEnvironment surroundings;
  std::string token = random_bytes(kShmTokenBytes);
  Listener listener;
  Reactor::Token listener_token = 0;
  Meeting<ShmArrival> meeting;

  void accept_all();
  // Descriptors have run out, or the like: again a little later, not in a tight loop.
  void retry_accept(const Status& status);
  void on_incoming(Reactor::Token token, const std::shared_ptr<Socket>& socket);
  Status answer(Socket& socket, ShmMessage message);
  Result<ShmArrival> map_arrival(const ShmHello& hello, ShmMessage message) const;
  Status send_hello(const Socket& socket, const SharedHeap& heap, const RingPair* pair, const ChannelKey& key,
                    std::string_view peer_token) const;
  Status await_reply(std::shared_ptr<Socket> socket, std::shared_ptr<ShmLink> link, const ChannelKey& key);
  Status take_reply(ShmLink& link, ShmMessage message) const;
  void expect(const std::shared_ptr<ShmLink>& link, const ChannelKey& key);
};

void ShmState::accept_all() {
  for (;;) {
    Result<Socket> accepted = listener.try_accept();
    if (!accepted.is_ok()) return retry_accept(accepted.status());
    if (!accepted->valid()) break;
    auto socket = std::make_shared<Socket>(std::move(accepted).value());
    auto watched = surroundings.reactor->watch(
        socket->fd(), EPOLLIN,
        [self = shared_from_this(), socket](Reactor::Token own, std::uint32_t) { self->on_incoming(own, socket); });
    if (!watched.is_ok()) return retry_accept(watched.status());
    // A client that says nothing is dropped; forgetting twice is harmless.
    surroundings.reactor->run_at(Deadline::after_ms(kHelloTimeoutMs),
                                 [weak = std::weak_ptr(surroundings.reactor), own = *watched] {
                                   if (auto reactor = weak.lock()) reactor->forget(own);
                                 });
  }
  surroundings.reactor->arm(listener_token, EPOLLIN);
}

void ShmState::retry_accept(const Status& status) {
  log_line(LogLevel::warn, "transport",
           status.with_context("shm transport: accepting a peer's connection").to_string());
  surroundings.reactor->run_at(Deadline::after_ms(kAcceptRetryMs), [weak = weak_from_this()] {
    if (auto self = weak.lock()) self->surroundings.reactor->arm(self->listener_token, EPOLLIN);
  });
}

void ShmState::on_incoming(Reactor::Token own, const std::shared_ptr<Socket>& socket) {
  const std::shared_ptr<Socket> keep = socket;  // forget() may drop the handler that holds it.
  Result<std::optional<ShmMessage>> message = receive_shm_message(keep->fd());
  if (message.is_ok() && !message->has_value()) {
    surroundings.reactor->arm(own, EPOLLIN);
    return;
  }
  if (message.is_ok()) {
    if (Status status = answer(*keep, std::move(**message)); !status.is_ok()) {
      ShmReply refusal;
      refusal.refusal = status.to_string();
      // The client may be gone or no rank at all; there is nobody else to tell.
      [[maybe_unused]] const Status told = send_shm_message(keep->fd(), refusal.encode(), {});
    }
  }
  surroundings.reactor->forget(own);
}

Status ShmState::answer(Socket& socket, ShmMessage message) {
  TRIREME_ASSIGN_OR_RETURN(const ShmHello hello, ShmHello::decode(message.text));
  if (!equal_secrets(hello.token, token)) return permission_denied("shm transport: wrong token");
  TRIREME_RETURN_IF_ERROR(hello.channel.check_against(*surroundings.world));
  TRIREME_ASSIGN_OR_RETURN(ShmArrival arrival, map_arrival(hello, std::move(message)));
  ShmReply reply;
  reply.doorbell_heap_bytes = surroundings.doorbell_heap_bytes;
  reply.doorbell_offset = surroundings.doorbell_offset;
  // A sender that is gone already has left its bytes in the rings: they still count.
  [[maybe_unused]] const Status told = send_shm_message(socket.fd(), reply.encode(), {surroundings.doorbell_heap_fd});
  meeting.arrive(hello.channel.key(), std::move(arrival));
  return Status::ok();
}

Result<ShmArrival> ShmState::map_arrival(const ShmHello& hello, ShmMessage message) const {
  if (message.fds.size() != 2) return data_loss("shm transport: a hello without its two descriptors");
  ShmArrival arrival;
  TRIREME_ASSIGN_OR_RETURN(
      auto mapped, map_peer_memory(std::move(message.fds[0]), hello.heap_bytes, hello.ring_offset, kRingDataOffset));
  arrival.pair = static_cast<RingPair*>(mapped.second);
  const std::uint64_t capacity = arrival.pair->capacity;
  if (arrival.pair->magic != kRingMagic || capacity == 0 || (capacity & (capacity - 1)) != 0 ||
      capacity > (hello.heap_bytes - hello.ring_offset - kRingDataOffset) / 2) {
    return data_loss("shm transport: the memory in a hello holds no rings of this version");
  }
  arrival.heap = std::move(mapped.first);
  arrival.heap->close_descriptor();
  TRIREME_ASSIGN_OR_RETURN(arrival.bell,
                           map_bell(std::move(message.fds[1]), hello.doorbell_heap_bytes, hello.doorbell_offset));
  return arrival;
}

Status ShmState::send_hello(const Socket& socket, const SharedHeap& heap, const RingPair* pair, const ChannelKey& key,
                            std::string_view peer_token) const {
  ShmHello hello;
  hello.channel = ChannelHello::from(*surroundings.world, key);
  hello.token = peer_token;
  hello.heap_bytes = heap.bytes();
  hello.ring_offset = static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(pair) - heap.base());
  hello.doorbell_heap_bytes = surroundings.doorbell_heap_bytes;
  hello.doorbell_offset = surroundings.doorbell_offset;
  return send_shm_message(socket.fd(), hello.encode(), {heap.fd(), surroundings.doorbell_heap_fd});
}

Status ShmState::await_reply(std::shared_ptr<Socket> socket, std::shared_ptr<ShmLink> link, const ChannelKey& key) {
  const int fd = socket->fd();
  auto handler = [self = shared_from_this(), socket = std::move(socket), link = std::move(link), key](
                     Reactor::Token own, std::uint32_t) {
    const auto keep = std::pair(self, socket);  // forget() may drop this handler.
    Result<std::optional<ShmMessage>> message = receive_shm_message(socket->fd());
    if (message.is_ok() && !message->has_value()) return self->surroundings.reactor->arm(own, EPOLLIN);
    Status status = message.is_ok() ? self->take_reply(*link, std::move(**message))
                                    : self->surroundings.peers->closed_by(key.peer, key.context);
    if (!status.is_ok()) link->fail(std::move(status));
    link->ring_peer();  // What was written before the bell was known.
    self->surroundings.ring_doorbell();
    self->surroundings.reactor->forget(own);
  };
  return surroundings.reactor->watch(fd, EPOLLIN, std::move(handler)).status();
}

Status ShmState::take_reply(ShmLink& link, ShmMessage message) const {
  TRIREME_ASSIGN_OR_RETURN(const ShmReply reply, ShmReply::decode(message.text));
  if (!reply.refusal.empty()) return unavailable("shm transport: the peer refused the channel: " + reply.refusal);
  if (message.fds.size() != 1) return data_loss("shm transport: a reply without its descriptor");
  TRIREME_ASSIGN_OR_RETURN(PeerBell bell,
                           map_bell(std::move(message.fds[0]), reply.doorbell_heap_bytes, reply.doorbell_offset));
  link.set_bell(std::move(bell));
  return Status::ok();
}

void ShmState::expect(const std::shared_ptr<ShmLink>& link, const ChannelKey& key) {
  meeting.expect(key, [link, ring = surroundings.ring_doorbell](ShmArrival arrival) {
    RingPair* pair = arrival.pair;
    link->set_bell(std::move(arrival.bell));
    link->set_rings(std::move(arrival.heap), pair);
    if (link->abandoned()) {
      RingWriter(pair, 1).close();
      RingReader(pair, 0).close();
      link->ring_peer();
    }
    ring();
  });
}

class ShmTransport final : public Transport {
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

 private:
  Status introduce(const std::shared_ptr<ShmLink>& link, const PeerInfo& peer, std::string_view peer_advertisement,
                   const ChannelKey& key);

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
  TRIREME_ASSIGN_OR_RETURN(const SocketAddress address, SocketAddress::parse(endpoint.address));
  Result<Socket> connected = Socket::connect(address, Deadline::after_ms(kConnectTimeoutMs));
  if (!connected.is_ok()) {
    if (Status dead = state_->surroundings.peers->status(peer.rank); !dead.is_ok()) return dead;
    return peer_dead(fmt::format("{} no longer listens at {} ({}): its process has ended or left the job",
                                 peer.to_string(), endpoint.address, connected.status().message()));
  }
  auto socket = std::make_shared<Socket>(std::move(connected).value());
  TRIREME_RETURN_IF_ERROR(state_->send_hello(*socket, *heap, pair, key, endpoint.token));
  heap->close_descriptor();  // The peer's copy travels; thousands of channels must not use up our descriptors.
  return state_->await_reply(std::move(socket), link, key);
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
