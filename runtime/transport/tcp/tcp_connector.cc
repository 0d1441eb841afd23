#include "runtime/transport/tcp/tcp_connector.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include <trireme/telemetry/log.h>

#include "runtime/transport/tcp/tcp_addresses.h"
#include "runtime/transport/tcp/tcp_wire.h"

namespace trireme {
namespace {
constexpr std::uint64_t kFirstRoundMs = 1'000;
constexpr std::uint64_t kLaterRoundsMs = 5'000;
constexpr std::uint64_t kLongestPauseMs = 1'000;
}  // namespace

TcpConnector::TcpConnector(std::shared_ptr<Reactor> reactor, std::shared_ptr<PeerWatch> peers, TcpTarget target,
                           std::shared_ptr<TcpConnection> connection,
                           std::function<void(const std::string&)> on_reached)
    : reactor_(std::move(reactor)),
      peers_(std::move(peers)),
      target_(std::move(target)),
      connection_(std::move(connection)),
      on_reached_(std::move(on_reached)),
      give_up_at_(Deadline::after_ms(kGiveUpMs)),
      reasons_(target_.addresses.size(), "not tried") {}

void TcpConnector::start() {
  reactor_->run_soon([self = shared_from_this()] { self->try_address(); });
}

void TcpConnector::try_address() {
  if (Status dead = peers_->status(target_.rank); !dead.is_ok()) return connection_->fail(std::move(dead));
  if (Status status = begin_connect(); !status.is_ok()) return next_address(status);
  const std::uint64_t patience_ms = attempt_ < target_.addresses.size() ? kFirstRoundMs : kLaterRoundsMs;
  reactor_->run_at(Deadline::after_ms(patience_ms), [weak = weak_from_this(), tried = attempt_, patience_ms] {
    const auto self = weak.lock();
    if (!self || self->attempt_ != tried || self->phase_ == Phase::welcome || !self->fd_.valid()) return;
    self->next_address(deadline_exceeded("no answer within " + std::to_string(patience_ms) + " ms"));
  });
}

Status TcpConnector::begin_connect() {
  const std::string& text = target_.addresses[attempt_ % target_.addresses.size()];
  TRIREME_ASSIGN_OR_RETURN(const NumericAddress address, numeric_address(text));
  phase_ = Phase::connecting;
  received_.clear();
  fd_ = UniqueFd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd_.valid()) return errno_status(errno, "socket");
  int error = 0;
  if (connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.length) != 0) error = errno;
  if (error != 0 && error != EINPROGRESS && error != EINTR) return errno_status(error, "connect");
  TRIREME_ASSIGN_OR_RETURN(
      token_, reactor_->watch(fd_.get(), EPOLLOUT, [self = shared_from_this()](Reactor::Token own, std::uint32_t) {
        const auto keep = self;
        keep->on_ready(own);
      }));
  return Status::ok();
}

void TcpConnector::on_ready(Reactor::Token own) {
  if (own != token_ || !fd_.valid()) return;
  if (Status status = advance(); !status.is_ok()) next_address(status);
}

Status TcpConnector::advance() {
  if (phase_ == Phase::connecting) {
    int error = 0;
    socklen_t length = sizeof error;
    if (getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
    if (error != 0) return errno_status(error, "connect");
    phase_ = Phase::challenge;
  }
  if (phase_ == Phase::challenge) {
    TRIREME_ASSIGN_OR_RETURN(const bool complete, receive(kTcpChallengeBytes));
    if (complete) TRIREME_RETURN_IF_ERROR(send_hello());
  }
  if (phase_ == Phase::welcome) {
    TRIREME_ASSIGN_OR_RETURN(const bool complete, receive(kTcpWelcomeBytes));
    if (complete) {
      TRIREME_RETURN_IF_ERROR(check_tcp_welcome(target_.token, challenge_, sent_hello_, received_));
      finish();
      return Status::ok();
    }
  }
  reactor_->arm(token_, EPOLLIN);
  return Status::ok();
}

Result<bool> TcpConnector::receive(std::size_t bytes) {
  // Exactly the message: what follows it belongs to the channel.
  while (received_.size() < bytes) {
    char buffer[std::max(kTcpChallengeBytes, kTcpWelcomeBytes)];
    const ssize_t got = recv(fd_.get(), buffer, bytes - received_.size(), MSG_DONTWAIT);
    if (got > 0) {
      received_.append(buffer, static_cast<std::size_t>(got));
    } else if (got == 0) {
      return peer_dead(phase_ == Phase::welcome ? "the connection was refused" : "the connection was closed");
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return false;
    } else if (errno != EINTR) {
      return errno_status(errno, "recv");
    }
  }
  return true;
}

Status TcpConnector::send_hello() {
  TRIREME_RETURN_IF_ERROR(check_tcp_challenge(received_));
  challenge_ = std::move(received_);
  received_.clear();
  sent_hello_ = make_tcp_hello(target_.token, challenge_, target_.hello);
  // A new socket's buffer holds the hello: a short write is a broken connection.
  const ssize_t sent = send(fd_.get(), sent_hello_.data(), sent_hello_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent != static_cast<ssize_t>(sent_hello_.size())) return errno_status(sent < 0 ? errno : EIO, "send");
  phase_ = Phase::welcome;
  return Status::ok();
}

void TcpConnector::finish() {
  reactor_->forget(token_);
  on_reached_(target_.addresses[attempt_ % target_.addresses.size()]);
  connection_->attach(std::move(fd_));
}

void TcpConnector::drop_socket() {
  reactor_->forget(token_);
  token_ = 0;
  fd_.reset();
}

void TcpConnector::next_address(const Status& why) {
  drop_socket();
  reasons_[attempt_ % target_.addresses.size()] = why.message();
  ++attempt_;
  if (attempt_ % target_.addresses.size() != 0) return try_address();
  if (give_up_at_.expired()) return connection_->fail(give_up());
  const std::uint64_t round = attempt_ / target_.addresses.size();
  const std::uint64_t pause_ms = std::min(kLongestPauseMs, std::uint64_t{20} << std::min<std::uint64_t>(round, 8));
  reactor_->run_at(Deadline::after_ms(pause_ms), [self = shared_from_this()] { self->try_address(); });
}

Status TcpConnector::give_up() const {
  std::string text = target_.peer + " cannot be reached by tcp:";
  for (std::size_t i = 0; i < target_.addresses.size(); ++i) {
    text += (i == 0 ? " " : "; ") + target_.addresses[i] + ": " + reasons_[i];
  }
  text += ". Check firewalls between the hosts, and TRIREME_INTERFACE if they have several networks";
  log_line(LogLevel::error, "transport", text);
  return unavailable(std::move(text));
}

}  // namespace trireme
