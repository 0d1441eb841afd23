// The connecting side of the handshake: tries a peer's addresses in turn until one
// answers with the right proof, then attaches the socket to the connection.
//
// An address has a second to connect and send its challenge, five in later rounds, after
// which the next is tried; a rank that is stopped may take as long as kGiveUpMs. Once the
// hello is sent nothing is tried beside it, so that one opening makes one connection.
// Thread safety: start() from any thread; the rest runs on the service thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/platform/api/unique_fd.h"
#include "runtime/transport/api/handshake.h"
#include "runtime/transport/api/peer_watch.h"
#include "runtime/transport/api/reactor.h"
#include "runtime/transport/tcp/tcp_connection.h"

namespace trireme {

struct TcpTarget {
  std::string peer;  // "rank 3 (node1, pid 4711)", for messages.
  std::string token;
  std::vector<std::string> addresses;  // In the order to try; at least one.
  ChannelHello hello;
  int rank = 0;
};

class TcpConnector : public std::enable_shared_from_this<TcpConnector> {
 public:
  // `on_reached` is told the address that worked.
  TcpConnector(std::shared_ptr<Reactor> reactor, std::shared_ptr<PeerWatch> peers, TcpTarget target,
               std::shared_ptr<TcpConnection> connection, std::function<void(const std::string&)> on_reached);
  void start();

 private:
  enum class Phase { connecting, challenge, welcome };
  static constexpr std::uint64_t kGiveUpMs = 60'000;

  void try_address();
  Status begin_connect();
  void on_ready(Reactor::Token own);
  Status advance();
  // True when `bytes` in all have arrived in received_.
  Result<bool> receive(std::size_t bytes);
  Status send_hello();
  void finish();
  void next_address(const Status& why);
  void drop_socket();
  Status give_up() const;

  std::shared_ptr<Reactor> reactor_;
  std::shared_ptr<PeerWatch> peers_;
  TcpTarget target_;
  std::shared_ptr<TcpConnection> connection_;
  std::function<void(const std::string&)> on_reached_;
  Deadline give_up_at_;
  std::size_t attempt_ = 0;           // Address attempt_ % addresses, in round attempt_ / addresses.
  std::vector<std::string> reasons_;  // Per address, of its last attempt.
  Phase phase_ = Phase::connecting;
  UniqueFd fd_;
  Reactor::Token token_ = 0;
  std::string received_;
  std::string challenge_;
  std::string sent_hello_;
};

}  // namespace trireme
