#include "runtime/transport/tcp/api/tcp_transport.h"

#include <algorithm>

#include <fmt/core.h>

#include <trireme/platform/environment.h>

#include "runtime/platform/api/process.h"
#include "runtime/platform/api/sockets.h"
#include "runtime/platform/api/system.h"
#include "runtime/transport/api/host_scope.h"
#include "runtime/transport/tcp/tcp_acceptor.h"
#include "runtime/transport/tcp/tcp_addresses.h"
#include "runtime/transport/tcp/tcp_candidates.h"
#include "runtime/transport/tcp/tcp_channel.h"
#include "runtime/transport/tcp/tcp_connector.h"
#include "runtime/transport/tcp/tcp_reached.h"
#include "runtime/transport/tcp/tcp_switchboard.h"
#include "runtime/transport/tcp/tcp_wire.h"

namespace trireme {
namespace {

constexpr std::uint64_t kLingerMs = 3'000;
constexpr std::uint64_t kLingerAfterFailureMs = 300;
constexpr std::uint64_t kDrainingMs = 500;
constexpr TcpPolling kPollWithCore{.spin_ns = 200'000, .yields = 4};
constexpr TcpPolling kPollWithoutCore{.spin_ns = 0, .yields = 10};

// How many streams to use to a peer: a function of its own, so that it outlives the transport.
auto stream_chooser(const TcpEndpoint& own, const TcpEndpoint& peer, const std::vector<InterfaceAddress>& interfaces) {
  const unsigned forced = std::max(peer.streams, own.streams);
  const bool same_machine = machine_of(peer.network_scope) == machine_of(own.network_scope);
  return [=](const TcpCandidate& candidate, const std::string& local, double answer_us) -> unsigned {
    if (forced > 0) return forced;
    std::int64_t speed = candidate.speed_mbit;
    for (const InterfaceAddress& entry : interfaces) {
      if (entry.address == local && entry.speed_mbit > 0) speed = std::min(speed, entry.speed_mbit);
    }
    return tcp_stream_count(speed, answer_us, same_machine);
  };
}

class TcpTransport final : public Transport {
 public:
  static Result<std::unique_ptr<Transport>> create(const TransportEnvironment& surroundings);
  explicit TcpTransport(const TransportEnvironment& surroundings) : surroundings_(surroundings) {}
  ~TcpTransport() override {
    // What channels had buffered when they were destroyed still goes out; in a world that
    // has failed, nobody needs it much.
    const bool failed = surroundings_.world->failure().has_value();
    lingering_->wait(Deadline::after_ms(failed ? kLingerAfterFailureMs : kLingerMs));
    // The kernel goes on delivering what it has when we are gone, unless the peer sends more.
    draining_->wait(Deadline::after_ms(failed ? kLingerAfterFailureMs : kDrainingMs));
    if (acceptor_) acceptor_->stop();
  }

  std::string_view name() const override { return "tcp"; }
  TransportCapabilities capabilities() const override {
    return {.crosses_hosts = true, .in_place = false, .notices_peer_death = true};
  }
  std::string advertisement() const override { return endpoint_.encode(); }
  Reach reach(const PeerInfo& peer, std::string_view peer_advertisement) const override;
  Result<std::unique_ptr<Channel>> open(const PeerInfo& peer, std::string_view peer_advertisement,
                                        std::uint64_t context) override;
  std::string report(int peer) const override { return reached_->text(peer); }

 private:
  Status listen();
  TcpSurroundings connection_surroundings() const;
  Status connect(const PeerInfo& peer, std::string_view peer_advertisement, const ChannelKey& key,
                 const std::shared_ptr<TcpConnection>& connection);

  TransportEnvironment surroundings_;
  TcpEndpoint endpoint_;
  std::vector<InterfaceAddress> local_;  // All of this host.
  std::vector<std::string> allowed_;     // Local hosts that may be used; empty: all.
  std::shared_ptr<TcpAcceptor> acceptor_;
  std::shared_ptr<TcpSwitchboard> switchboard_;
  std::shared_ptr<TcpLingering> lingering_ = std::make_shared<TcpLingering>();
  std::shared_ptr<TcpLingering> draining_ = std::make_shared<TcpLingering>();
  std::shared_ptr<ReachedPeers> reached_ = std::make_shared<ReachedPeers>();
};

Status TcpTransport::listen() {
  const World& world = *surroundings_.world;
  const bool one_host = world.local_size() == world.size();
  const std::string filter = environment("TRIREME_INTERFACE").value_or("");
  TRIREME_ASSIGN_OR_RETURN(local_, interface_addresses());
  TRIREME_ASSIGN_OR_RETURN(std::vector<InterfaceAddress> chosen, select_addresses(local_, filter, one_host));
  TRIREME_ASSIGN_OR_RETURN(const std::int64_t streams,
                           environment_integer("TRIREME_TCP_STREAMS", 0, 0, kMostTcpStreams));
  if (one_host && filter.empty()) chosen.resize(1);  // One loopback address serves everybody.
  endpoint_.token = random_bytes(kTcpTokenBytes);
  endpoint_.network_scope = network_scope();
  endpoint_.streams = static_cast<unsigned>(streams);
  switchboard_ = std::make_shared<TcpSwitchboard>(surroundings_.reactor);
  acceptor_ =
      std::make_shared<TcpAcceptor>(surroundings_.reactor, surroundings_.world, endpoint_.token,
                                    [board = switchboard_, reached = reached_](const ChannelKey& key, TcpLink link) {
                                      if (link.stream == 0)
                                        reached->note(key.peer, "", "", "it connected to us, " + link.path);
                                      board->arrive(key, std::move(link));
                                    });
  std::vector<std::string> hosts;
  for (const InterfaceAddress& entry : chosen) hosts.push_back(entry.address);
  if (!filter.empty()) allowed_ = hosts;
  TRIREME_ASSIGN_OR_RETURN(const int port, acceptor_->listen(hosts));
  for (const InterfaceAddress& entry : chosen) {
    endpoint_.addresses.push_back({with_port(without_scope(entry.address), port), entry.interface,
                                   static_cast<std::uint32_t>(entry.speed_mbit), entry.loopback});
  }
  acceptor_->start();
  return Status::ok();
}

Result<std::unique_ptr<Transport>> TcpTransport::create(const TransportEnvironment& surroundings) {
  auto transport = std::make_unique<TcpTransport>(surroundings);
  TRIREME_RETURN_IF_ERROR(transport->listen());
  return std::unique_ptr<Transport>(std::move(transport));
}

// Both ends must come to the same answer, so only what both know matters here; which
// address is taken shows when they connect.
Reach TcpTransport::reach(const PeerInfo&, std::string_view peer_advertisement) const {
  Reach reach;
  const auto peer = TcpEndpoint::decode(peer_advertisement);
  if (!peer.is_ok()) {
    reach.reason = peer.status().message();
    return reach;
  }
  const bool same_scope = peer->network_scope == endpoint_.network_scope;
  if (!may_meet(endpoint_, *peer)) {
    reach.reason = "the two have no addresses of one kind (IPv4, IPv6) outside their hosts; set TRIREME_INTERFACE";
    return reach;
  }
  std::string addresses;
  for (const TcpEndpoint::Address& address : peer->addresses) {
    addresses += (addresses.empty() ? "" : ", ") + address.text;
  }
  return {.possible = true,
          .bytes_per_second = same_scope ? 2e9 : 1e9,
          .latency_us = same_scope ? 30.0 : 40.0,
          .reason = fmt::format("{}, listens at {}", same_scope ? "same host" : "over the network", addresses)};
}

TcpSurroundings TcpTransport::connection_surroundings() const {
  const bool has_core = surroundings_.world->local_size() <= usable_cpu_count();
  return {surroundings_.reactor,
          lingering_,
          draining_,
          surroundings_.ring_doorbell,
          surroundings_.channel_bytes,
          has_core ? kPollWithCore : kPollWithoutCore};
}

Status TcpTransport::connect(const PeerInfo& peer, std::string_view peer_advertisement, const ChannelKey& key,
                             const std::shared_ptr<TcpConnection>& connection) {
  TRIREME_ASSIGN_OR_RETURN(const TcpEndpoint endpoint, TcpEndpoint::decode(peer_advertisement));
  TcpTarget target;
  target.peer = peer.to_string();
  target.rank = peer.rank;
  target.token = endpoint.token;
  target.candidates = tcp_candidates(endpoint, endpoint_.network_scope, local_, target.excluded);
  if (target.candidates.empty()) return unavailable(target.peer + " has no address that could be reached from here");
  target.known_host = reached_->host(endpoint.network_scope);
  target.local_hosts = allowed_;
  target.hello.channel = ChannelHello::from(*surroundings_.world, key);
  connection->on_more_streams([target, weak = std::weak_ptr(connection), scope = endpoint.network_scope,
                               reached = reached_, reactor = surroundings_.reactor,
                               peers = surroundings_.peers](unsigned streams) {
    const auto held = weak.lock();
    for (unsigned stream = 1; held && stream < streams; ++stream) {
      TcpTarget further = target;
      further.known_host = reached->host(scope);
      further.hello.stream = stream;
      further.hello.streams = streams;
      std::make_shared<TcpConnector>(reactor, peers, std::move(further), held, [](const TcpReached&) {})->start();
    }
  });
  target.choose_streams = stream_chooser(endpoint_, endpoint, local_);
  std::make_shared<TcpConnector>(
      surroundings_.reactor, surroundings_.peers, std::move(target), connection,
      [reached = reached_, rank = peer.rank, scope = endpoint.network_scope](const TcpReached& how) {
        reached->note(rank, scope, SocketAddress{how.address}.host(), how.text);
      })
      ->start();
  return Status::ok();
}

Result<std::unique_ptr<Channel>> TcpTransport::open(const PeerInfo& peer, std::string_view peer_advertisement,
                                                    std::uint64_t context) {
  const ChannelKey key = switchboard_->next_key(peer.rank, context);
  auto connection = std::make_shared<TcpConnection>(connection_surroundings(), peer.to_string());
  if (surroundings_.world->rank() < peer.rank) {
    TRIREME_RETURN_IF_ERROR(connect(peer, peer_advertisement, key, connection));
  } else {
    switchboard_->expect(key, connection);
  }
  return std::unique_ptr<Channel>(
      std::make_unique<TcpChannel>(std::move(connection), surroundings_.peers, peer.rank, context));
}

}  // namespace

Result<std::unique_ptr<Transport>> create_tcp_transport(const TransportEnvironment& environment) {
  return TcpTransport::create(environment);
}

}  // namespace trireme
