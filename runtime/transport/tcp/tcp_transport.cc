#include "runtime/transport/tcp/api/tcp_transport.h"

#include <algorithm>
#include <map>
#include <mutex>

#include <fmt/core.h>

#include <trireme/platform/environment.h>

#include "runtime/platform/api/sockets.h"
#include "runtime/transport/api/host_scope.h"
#include "runtime/transport/api/meeting.h"
#include "runtime/transport/tcp/tcp_acceptor.h"
#include "runtime/transport/tcp/tcp_addresses.h"
#include "runtime/transport/tcp/tcp_channel.h"
#include "runtime/transport/tcp/tcp_connector.h"
#include "runtime/transport/tcp/tcp_wire.h"

namespace trireme {
namespace {

constexpr std::size_t kTokenBytes = 32;
constexpr std::uint64_t kLingerMs = 3'000;

// The address by which each peer was reached last: tried first the next time.
class ReachedAddresses {
 public:
  void note(int rank, const std::string& address) {
    const std::lock_guard lock(mutex_);
    reached_[rank] = address;
  }
  void put_first(int rank, std::vector<std::string>& addresses) {
    const std::lock_guard lock(mutex_);
    const auto found = reached_.find(rank);
    if (found == reached_.end()) return;
    std::stable_partition(addresses.begin(), addresses.end(), [&](const std::string& a) { return a == found->second; });
  }

 private:
  std::mutex mutex_;
  std::map<int, std::string> reached_;
};

class TcpTransport final : public Transport {
 public:
  static Result<std::unique_ptr<Transport>> create(const TransportEnvironment& surroundings);
  explicit TcpTransport(const TransportEnvironment& surroundings) : surroundings_(surroundings) {}
  ~TcpTransport() override {
    // What channels had buffered when they were destroyed still goes out.
    lingering_->wait(Deadline::after_ms(kLingerMs));
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

 private:
  Status listen();

  using Sockets = Meeting<UniqueFd>;
  TransportEnvironment surroundings_;
  TcpEndpoint endpoint_;
  std::shared_ptr<TcpAcceptor> acceptor_;
  std::shared_ptr<Sockets> meeting_ = std::make_shared<Sockets>();
  std::shared_ptr<TcpLingering> lingering_ = std::make_shared<TcpLingering>();
  std::shared_ptr<ReachedAddresses> reached_ = std::make_shared<ReachedAddresses>();
};

Status TcpTransport::listen() {
  const World& world = *surroundings_.world;
  TRIREME_ASSIGN_OR_RETURN(const std::vector<InterfaceAddress> all, interface_addresses());
  TRIREME_ASSIGN_OR_RETURN(
      const std::vector<InterfaceAddress> chosen,
      select_addresses(all, environment("TRIREME_INTERFACE").value_or(""), world.local_size() == world.size()));
  endpoint_.token = random_bytes(kTokenBytes);
  endpoint_.network_scope = network_scope();
  acceptor_ = std::make_shared<TcpAcceptor>(
      surroundings_.reactor, surroundings_.world, endpoint_.token,
      [meeting = meeting_](const ChannelKey& key, UniqueFd socket) { meeting->arrive(key, std::move(socket)); });
  Status last = Status::ok();
  for (const InterfaceAddress& entry : chosen) {
    Result<std::string> address = acceptor_->listen(entry.address);
    if (address.is_ok())
      endpoint_.addresses.push_back({std::move(address).value(), entry.loopback});
    else
      last = address.status();
  }
  if (endpoint_.addresses.empty()) return last;
  acceptor_->start();
  return Status::ok();
}

Result<std::unique_ptr<Transport>> TcpTransport::create(const TransportEnvironment& surroundings) {
  auto transport = std::make_unique<TcpTransport>(surroundings);
  TRIREME_RETURN_IF_ERROR(transport->listen());
  return std::unique_ptr<Transport>(std::move(transport));
}

Reach TcpTransport::reach(const PeerInfo&, std::string_view peer_advertisement) const {
  Reach reach;
  const auto peer = TcpEndpoint::decode(peer_advertisement);
  if (!peer.is_ok()) {
    reach.reason = peer.status().message();
    return reach;
  }
  const bool same_scope = peer->network_scope == endpoint_.network_scope;
  const std::vector<std::string> theirs = peer->reachable_from(endpoint_.network_scope);
  // Both ends must come to the same answer, so the address of each matters to both.
  if (theirs.empty() || endpoint_.reachable_from(peer->network_scope).empty()) {
    reach.reason = "one of the two has no address that the other can reach; set TRIREME_INTERFACE";
    return reach;
  }
  return {.possible = true,
          .bytes_per_second = same_scope ? 2e9 : 1e9,
          .latency_us = same_scope ? 30.0 : 40.0,
          .reason = fmt::format("{} at {}{}", same_scope ? "same host" : "over the network", theirs.front(),
                                theirs.size() > 1 ? fmt::format(" or {} more", theirs.size() - 1) : "")};
}

Result<std::unique_ptr<Channel>> TcpTransport::open(const PeerInfo& peer, std::string_view peer_advertisement,
                                                    std::uint64_t context) {
  const ChannelKey key = meeting_->next_key(peer.rank, context);
  auto connection = std::make_shared<TcpConnection>(surroundings_.reactor, lingering_, surroundings_.ring_doorbell,
                                                    surroundings_.channel_bytes);
  if (surroundings_.world->rank() < peer.rank) {
    TRIREME_ASSIGN_OR_RETURN(const TcpEndpoint endpoint, TcpEndpoint::decode(peer_advertisement));
    TcpTarget target{.peer = peer.to_string(),
                     .token = endpoint.token,
                     .addresses = endpoint.reachable_from(endpoint_.network_scope),
                     .hello = ChannelHello::from(*surroundings_.world, key),
                     .rank = peer.rank};
    reached_->put_first(peer.rank, target.addresses);
    std::make_shared<TcpConnector>(
        surroundings_.reactor, surroundings_.peers, std::move(target), connection,
        [reached = reached_, rank = peer.rank](const std::string& address) { reached->note(rank, address); })
        ->start();
  } else {
    meeting_->expect(key, [connection](UniqueFd socket) { connection->attach(std::move(socket)); });
  }
  return std::unique_ptr<Channel>(
      std::make_unique<TcpChannel>(std::move(connection), surroundings_.peers, peer.rank, context));
}

}  // namespace

Result<std::unique_ptr<Transport>> create_tcp_transport(const TransportEnvironment& environment) {
  return TcpTransport::create(environment);
}

}  // namespace trireme
