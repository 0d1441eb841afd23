// The accepting side of the handshake: listens on one port, challenges whoever connects,
// refuses who cannot prove membership, and delivers the socket of who can.
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
#include "runtime/transport/tcp/tcp_connection.h"

namespace trireme {

class TcpAcceptor : public std::enable_shared_from_this<TcpAcceptor> {
 public:
  using Deliver = std::function<void(const ChannelKey& key, TcpLink link)>;

  TcpAcceptor(std::shared_ptr<Reactor> reactor, std::shared_ptr<World> world, std::string token, Deliver deliver);
  // Listens on a free port for connections to these addresses of this host (with scope
  // ids): on the address itself when it is one, on all of them and the others refused
  // when they are several. Returns the port.
  Result<int> listen(const std::vector<std::string>& hosts);
  void start();
  void stop();

 private:
  struct Incoming;
  void accept_all();
  void challenge(Socket socket);
  void on_hello(Reactor::Token own, const std::shared_ptr<Incoming>& incoming);
  Status admit(Incoming& incoming);
  Status check_local(const Socket& socket) const;
  void refuse(Incoming& incoming, const Status& why);
  void arm_later(const Status& status);

  std::shared_ptr<Reactor> reactor_;
  std::shared_ptr<World> world_;
  std::string token_;
  Deliver deliver_;
  std::vector<std::string> hosts_;
  Listener listener_;
  Reactor::Token watched_ = 0;
};

}  // namespace trireme
