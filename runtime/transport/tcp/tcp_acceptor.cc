#include "runtime/transport/tcp/tcp_acceptor.h"

#include <sys/epoll.h>

#include <algorithm>

#include <fmt/core.h>

#include <trireme/telemetry/log.h>

#include "runtime/transport/tcp/tcp_addresses.h"
#include "runtime/transport/tcp/tcp_wire.h"

namespace trireme {
namespace {
constexpr std::uint64_t kHelloTimeoutMs = 10'000;
constexpr std::uint64_t kAcceptRetryMs = 100;

Result<Listener> listen_on(const std::string& host) {
  TRIREME_ASSIGN_OR_RETURN(const SocketAddress wanted, SocketAddress::tcp(host, 0));
  return Listener::listen(wanted);
}

}  // namespace

struct TcpAcceptor::Incoming {
  Socket socket;
  std::string challenge = make_tcp_challenge();
  std::string hello;  // What has arrived of it.
};

TcpAcceptor::TcpAcceptor(std::shared_ptr<Reactor> reactor, std::shared_ptr<World> world, std::string token,
                         Deliver deliver)
    : reactor_(std::move(reactor)), world_(std::move(world)), token_(std::move(token)), deliver_(std::move(deliver)) {}

Result<int> TcpAcceptor::listen(const std::vector<std::string>& hosts) {
  hosts_ = hosts;
  // "::" takes IPv4 connections too; a kernel without IPv6 gets "0.0.0.0".
  Result<Listener> listener = listen_on(hosts.size() == 1 ? hosts.front() : "::");
  if (!listener.is_ok() && hosts.size() > 1) listener = listen_on("0.0.0.0");
  if (!listener.is_ok()) return listener.status();
  listener_ = std::move(listener).value();
  TRIREME_ASSIGN_OR_RETURN(watched_,
                           reactor_->watch(listener_.fd(), 0, [weak = weak_from_this()](Reactor::Token, std::uint32_t) {
                             if (auto self = weak.lock()) self->accept_all();
                           }));
  return listener_.address().port();
}

void TcpAcceptor::start() {
  reactor_->arm(watched_, EPOLLIN);
}

void TcpAcceptor::stop() {
  reactor_->forget(watched_);
}

void TcpAcceptor::accept_all() {
  for (;;) {
    Result<Socket> accepted = listener_.try_accept();
    if (!accepted.is_ok()) return arm_later(accepted.status());
    if (!accepted->valid()) break;
    challenge(std::move(accepted).value());
  }
  reactor_->arm(watched_, EPOLLIN);
}

// Descriptors have run out, or the like: again a little later, not in a tight loop.
void TcpAcceptor::arm_later(const Status& status) {
  log_line(LogLevel::warn, "transport",
           status.with_context("tcp transport: accepting a peer's connection").to_string());
  reactor_->run_at(Deadline::after_ms(kAcceptRetryMs), [weak = weak_from_this()] {
    if (auto self = weak.lock()) self->start();
  });
}

// An address that TRIREME_INTERFACE leaves out is as good as not listened on.
Status TcpAcceptor::check_local(const Socket& socket) const {
  const std::string host = local_host(socket.fd());
  if (std::find(hosts_.begin(), hosts_.end(), host) != hosts_.end()) return Status::ok();
  return permission_denied("it came to " + host + ", which TRIREME_INTERFACE leaves out");
}

void TcpAcceptor::challenge(Socket socket) {
  auto incoming = std::make_shared<Incoming>();
  incoming->socket = std::move(socket);
  if (Status status = check_local(incoming->socket); !status.is_ok()) return refuse(*incoming, status);
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
  Status status = check_tcp_hello_begin(incoming->hello);
  if (status.is_ok()) {
    if (incoming->hello.size() < kTcpHelloBytes) return reactor_->arm(own, EPOLLIN);
    reactor_->forget(own);
    status = admit(*incoming);
  } else {
    reactor_->forget(own);
  }
  if (!status.is_ok()) refuse(*incoming, status);
}

void TcpAcceptor::refuse(Incoming& incoming, const Status& why) {
  log_line(LogLevel::warn, "transport",
           fmt::format("job {}, rank {}: refused a connection from {}: {}", world_->job_id(), world_->rank(),
                       incoming.socket.peer(), why.to_string()));
  const std::string refusal = make_tcp_refusal(why);
  // Who does not want to hear it need not.
  static_cast<void>(incoming.socket.send_some(refusal.data(), refusal.size()).is_ok());
  drain_and_close(reactor_, UniqueFd(incoming.socket.release()), nullptr);
}

Status TcpAcceptor::admit(Incoming& incoming) {
  TRIREME_ASSIGN_OR_RETURN(const TcpHello hello, check_tcp_hello(token_, incoming.challenge, incoming.hello));
  TRIREME_RETURN_IF_ERROR(hello.channel.check_against(*world_));
  if (hello.channel.from_rank > hello.channel.to_rank) {
    return permission_denied(fmt::format("a hello from rank {} to rank {}: the lower rank connects",
                                         hello.channel.from_rank, hello.channel.to_rank));
  }
  const std::string welcome = make_tcp_welcome(token_, incoming.challenge, incoming.hello);
  TRIREME_ASSIGN_OR_RETURN(const std::size_t sent, incoming.socket.send_some(welcome.data(), welcome.size()));
  if (sent != welcome.size()) return io_error("the welcome was cut short");
  TcpLink link;
  link.path = fmt::format("{} to {}", local_host(incoming.socket.fd()), incoming.socket.peer());
  link.stream = hello.stream;
  link.streams = hello.streams;
  link.fd = UniqueFd(incoming.socket.release());
  deliver_(hello.channel.key(), std::move(link));
  return Status::ok();
}

}  // namespace trireme
