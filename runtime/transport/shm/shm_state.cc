#include "runtime/transport/shm/shm_state.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <fmt/core.h>

#include <trireme/telemetry/log.h>

namespace trireme {
namespace {

constexpr std::uint64_t kHelloTimeoutMs = 10'000;
constexpr std::uint64_t kConnectTimeoutMs = 1'000;
constexpr std::uint64_t kAcceptRetryMs = 100;

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

}  // namespace

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
  ShmArrival channel;
  MemoryArrival memory;
  if (hello.purpose == ShmPurpose::channel) {
    TRIREME_ASSIGN_OR_RETURN(channel, map_arrival(hello, std::move(message)));
  } else {
    TRIREME_ASSIGN_OR_RETURN(memory, map_memory(hello, std::move(message)));
  }
  ShmReply reply;
  reply.doorbell_heap_bytes = surroundings.doorbell_heap_bytes;
  reply.doorbell_offset = surroundings.doorbell_offset;
  // A sender that is gone already has left its bytes in the rings: they still count.
  [[maybe_unused]] const Status told = send_shm_message(socket.fd(), reply.encode(), {surroundings.doorbell_heap_fd});
  if (hello.purpose == ShmPurpose::channel) {
    meeting.arrive(hello.channel.key(), std::move(channel));
  } else {
    memories.arrive(hello.channel.key(), std::move(memory));
  }
  return Status::ok();
}

Result<ShmArrival> ShmState::map_arrival(const ShmHello& hello, ShmMessage message) const {
  if (message.fds.size() != 2) return data_loss("shm transport: a hello without its two descriptors");
  ShmArrival arrival;
  TRIREME_ASSIGN_OR_RETURN(
      auto mapped, map_peer_memory(std::move(message.fds[0]), hello.heap_bytes, hello.heap_offset, kRingDataOffset));
  arrival.pair = static_cast<RingPair*>(mapped.second);
  const std::uint64_t capacity = arrival.pair->capacity;
  if (arrival.pair->magic != kRingMagic || capacity == 0 || (capacity & (capacity - 1)) != 0 ||
      capacity > (hello.heap_bytes - hello.heap_offset - kRingDataOffset) / 2) {
    return data_loss("shm transport: the memory in a hello holds no rings of this version");
  }
  arrival.heap = std::move(mapped.first);
  TRIREME_ASSIGN_OR_RETURN(arrival.bell,
                           map_bell(std::move(message.fds[1]), hello.doorbell_heap_bytes, hello.doorbell_offset));
  return arrival;
}

Result<MemoryArrival> ShmState::map_memory(const ShmHello& hello, ShmMessage message) const {
  if (message.fds.size() != 2) return data_loss("shm transport: a hello without its two descriptors");
  MemoryArrival arrival;
  arrival.offset = hello.heap_offset;
  TRIREME_ASSIGN_OR_RETURN(auto mapped,
                           map_peer_memory(std::move(message.fds[0]), hello.heap_bytes, hello.heap_offset, 1));
  arrival.heap = std::move(mapped.first);
  TRIREME_ASSIGN_OR_RETURN(arrival.bell,
                           map_bell(std::move(message.fds[1]), hello.doorbell_heap_bytes, hello.doorbell_offset));
  return arrival;
}

Result<std::shared_ptr<Socket>> ShmState::connect(const PeerInfo& peer, std::string_view address) const {
  TRIREME_ASSIGN_OR_RETURN(const SocketAddress where, SocketAddress::parse(address));
  Result<Socket> connected = Socket::connect(where, Deadline::after_ms(kConnectTimeoutMs));
  if (connected.is_ok()) return std::make_shared<Socket>(std::move(connected).value());
  if (Status dead = surroundings.peers->status(peer.rank); !dead.is_ok()) return dead;
  return peer_dead(fmt::format("{} no longer listens at {} ({}): its process has ended or left the job",
                               peer.to_string(), address, connected.status().message()));
}

Status ShmState::send_hello(const Socket& socket, ShmPurpose purpose, const SharedHeap& heap, std::size_t offset,
                            const ChannelKey& key, std::string_view peer_token) const {
  ShmHello hello;
  hello.purpose = purpose;
  hello.channel = ChannelHello::from(*surroundings.world, key);
  hello.token = peer_token;
  hello.heap_bytes = heap.bytes();
  hello.heap_offset = offset;
  hello.doorbell_heap_bytes = surroundings.doorbell_heap_bytes;
  hello.doorbell_offset = surroundings.doorbell_offset;
  return send_shm_message(socket.fd(), hello.encode(), {heap.fd(), surroundings.doorbell_heap_fd});
}

Status ShmState::await_reply(std::shared_ptr<Socket> socket, const ChannelKey& key, TakeReply take) {
  const int fd = socket->fd();
  auto handler = [self = shared_from_this(), socket = std::move(socket), take = std::move(take), key](
                     Reactor::Token own, std::uint32_t) {
    const auto keep = std::pair(self, socket);  // forget() may drop this handler.
    Result<std::optional<ShmMessage>> message = receive_shm_message(socket->fd());
    if (message.is_ok() && !message->has_value()) return self->surroundings.reactor->arm(own, EPOLLIN);
    if (message.is_ok()) {
      take(*self, std::move(**message));
    } else {
      take(*self, self->surroundings.peers->closed_by(key.peer, key.context));
    }
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

}  // namespace trireme
