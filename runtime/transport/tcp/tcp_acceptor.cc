#include "runtime/transport/tcp/tcp_acceptor.h"

#include <sys/epoll.h>

#include <trireme/telemetry/log.h>

#include "runtime/transport/tcp/tcp_wire.h"

namespace trireme {
namespace {
constexpr std::uint64_t kHelloTimeoutMs = 10'000;
constexpr std::uint64_t kAcceptRetryMs = 100;
}  // namespace

struct TcpAcceptor::Incoming {
  Socket socket;
  std::string challenge = make_tcp_challenge();
  std::string hello;  // What has arrived of it.
};

TcpAcceptor::TcpAcceptor(std::shared_ptr<Reactor> reactor, std::shared_ptr<World> world, std::string token,
                         Deliver deliver)
    : reactor_(std::move(reactor)), world_(std::move(world)), token_(std::move(token)), deliver_(std::move(deliver)) {}

Result<std::string> TcpAcceptor::listen(const std::string& host) {
  TRIREME_ASSIGN_OR_RETURN(const SocketAddress wanted, SocketAddress::tcp(host, 0));
  auto port = std::make_unique<Port>();
  TRIREME_ASSIGN_OR_RETURN(port->listener, Listener::listen(wanted));
  const std::string address = port->listener.address().text;
  auto handler = [weak = weak_from_this(), index = ports_.size()](Reactor::Token, std::uint32_t) {
    if (auto self = weak.lock()) self->accept_all(index);
  };
  TRIREME_ASSIGN_OR_RETURN(port->token, reactor_->watch(port->listener.fd(), 0, std::move(handler)));
  ports_.push_back(std::move(port));
  return address;
}

void TcpAcceptor::start() {
  for (const auto& port : ports_) reactor_->arm(port->token, EPOLLIN);
}

void TcpAcceptor::stop() {
  for (const auto& port : ports_) reactor_->forget(port->token);
}

void TcpAcceptor::accept_all(std::size_t index) {
  for (;;) {
    Result<Socket> accepted = ports_[index]->listener.try_accept();
    if (!accepted.is_ok()) return arm_later(index, accepted.status());
    if (!accepted->valid()) break;
    challenge(std::move(accepted).value());
  }
  reactor_->arm(ports_[index]->token, EPOLLIN);
}

// Descriptors have run out, or the like: again a little later, not in a tight loop.
void TcpAcceptor::arm_later(std::size_t index, const Status& status) {
  log_line(LogLevel::warn, "transport",
           status.with_context("tcp transport: accepting a peer's connection").to_string());
  reactor_->run_at(Deadline::after_ms(kAcceptRetryMs), [weak = weak_from_this(), index] {
    if (auto self = weak.lock()) self->reactor_->arm(self->ports_[index]->token, EPOLLIN);
  });
}

void TcpAcceptor::challenge(Socket socket) {
  auto incoming = std::make_shared<Incoming>();
  incoming->socket = std::move(socket);
  // 40 bytes always fit into the buffer of a new socket; if the client is gone already,
  // so is its connection.
  const auto sent = incoming->socket.send_some(incoming->challenge.data(), incoming->challenge.size());
  if (!sent.is_ok() || *sent != incoming->challenge.size()) return;
  auto watched = reactor_->watch(incoming->socket.fd(), EPOLLIN,
                                 [weak = weak_from_this(), incoming](Reactor::Token own, std::uint32_t) {
                                   if (auto self = weak.lock()) self->on_hello(own, incoming);
                                 });
  if (!watched.is_ok()) return;
  reactor_->run_at(Deadline::after_ms(kHelloTimeoutMs), [weak = std::weak_ptr(reactor_), own = *watched] {
    if (auto reactor = weak.lock()) reactor->forget(own);  // Harmless when it is done.
  });
}

void TcpAcceptor::on_hello(Reactor::Token own, const std::shared_ptr<Incoming>& held) {
  const std::shared_ptr<Incoming> incoming = held;  // forget() may drop the handler that holds it.
  char buffer[kTcpHelloBytes];
  const auto got = incoming->socket.receive_some(buffer, kTcpHelloBytes - incoming->hello.size());
  if (!got.is_ok()) return reactor_->forget(own);
  incoming->hello.append(buffer, *got);
  if (incoming->hello.size() < kTcpHelloBytes) return reactor_->arm(own, EPOLLIN);
  reactor_->forget(own);
  if (Status status = admit(*incoming); !status.is_ok()) {
    log_line(LogLevel::info, "transport",
             status.with_context("tcp transport: refused a connection from " + incoming->socket.peer()).to_string());
  }
}

Status TcpAcceptor::admit(Incoming& incoming) {
  TRIREME_ASSIGN_OR_RETURN(const ChannelHello hello, check_tcp_hello(token_, incoming.challenge, incoming.hello));
  TRIREME_RETURN_IF_ERROR(hello.check_against(*world_));
  const std::string welcome = make_tcp_welcome(token_, incoming.challenge, incoming.hello);
  TRIREME_ASSIGN_OR_RETURN(const std::size_t sent, incoming.socket.send_some(welcome.data(), welcome.size()));
  if (sent != welcome.size()) return io_error("the welcome was cut short");
  deliver_(hello.key(), UniqueFd(incoming.socket.release()));
  return Status::ok();
}

}  // namespace trireme
