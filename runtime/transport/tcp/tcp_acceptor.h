// The accepting side of the handshake: listens, challenges whoever connects, refuses who
// cannot prove membership, and delivers the socket of who can.
// Thread safety: listen(), start() and stop() by the owner; the rest runs on the service thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <trireme/rendezvous/world.h>

#include "runtime/platform/api/sockets.h"
#include "runtime/transport/api/handshake.h"
#include "runtime/transport/api/reactor.h"

namespace trireme {

class TcpAcceptor : public std::enable_shared_from_this<TcpAcceptor> {
 public:
  using Deliver = std::function<void(const ChannelKey& key, UniqueFd socket)>;

  TcpAcceptor(std::shared_ptr<Reactor> reactor, std::shared_ptr<World> world, std::string token, Deliver deliver);
  // Listens on a free port of `host` as well. Returns "host:port".
  Result<std::string> listen(const std::string& host);
  void start();  // After the last listen().
  void stop();

 private:
  struct Incoming;
  void accept_all(std::size_t index);
  void challenge(Socket socket);
  void on_hello(Reactor::Token own, const std::shared_ptr<Incoming>& incoming);
  Status admit(Incoming& incoming);
  void arm_later(std::size_t index, const Status& status);

  std::shared_ptr<Reactor> reactor_;
  std::shared_ptr<World> world_;
  std::string token_;
  Deliver deliver_;
  struct Port {
    Listener listener;
    Reactor::Token token = 0;
  };
  std::vector<std::unique_ptr<Port>> ports_;  // Grows before start() only.
};

}  // namespace trireme
