#include "runtime/transport/tcp/tcp_connector.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include <fmt/core.h>

#include <trireme/telemetry/log.h>

#include "runtime/transport/tcp/tcp_addresses.h"

namespace trireme {
namespace {
constexpr std::uint64_t kFirstRoundMs = 500;
constexpr std::uint64_t kLongestRoundMs = 5'000;
constexpr std::uint64_t kLongestPauseMs = 1'000;
}  // namespace

TcpConnector::TcpConnector(std::shared_ptr<Reactor> reactor, std::shared_ptr<PeerWatch> peers, TcpTarget target,
                           std::shared_ptr<TcpConnection> connection, std::function<void(const TcpReached&)> on_reached)
    : reactor_(std::move(reactor)),
      peers_(std::move(peers)),
      target_(std::move(target)),
      connection_(std::move(connection)),
      on_reached_(std::move(on_reached)),
      give_up_at_(Deadline::after_ms(kGiveUpMs)) {}

void TcpConnector::start() {
  reactor_->run_soon([self = shared_from_this()] { self->start_round(); });
}

void TcpConnector::start_round() {
  if (Status dead = peers_->status(target_.rank); !dead.is_ok()) return connection_->fail(std::move(dead));
  TcpRaceOptions options;
  options.local_hosts = target_.local_hosts;
  options.patience_ms = std::min(kLongestRoundMs, kFirstRoundMs << std::min(round_, 8u));
  std::make_shared<TcpRace>(
      reactor_, round_candidates(), options,
      [self = shared_from_this()](const TcpRace& race, const TcpCandidate* taken, TcpRace::Winner* winner) {
        self->on_race_over(race, taken, winner);
      })
      ->start();
}

std::vector<TcpCandidate> TcpConnector::round_candidates() const {
  if (round_ > 0) return target_.candidates;
  for (const TcpCandidate& candidate : target_.candidates) {
    if (SocketAddress{candidate.address}.host() == target_.known_host) return {candidate};
  }
  return target_.candidates;
}

void TcpConnector::on_race_over(const TcpRace& race, const TcpCandidate* taken, TcpRace::Winner* winner) {
  others_ = race.report();
  refusal_.clear();
  if (winner == nullptr) return try_again(unavailable("no address answered"));
  taken_ = *taken;
  answer_us_ = winner->answer_us;
  if (Status status = send_hello(*winner); !status.is_ok()) try_again(status);
}

Status TcpConnector::send_hello(TcpRace::Winner& winner) {
  fd_ = std::move(winner.fd);
  challenge_ = std::move(winner.challenge);
  received_.clear();
  if (target_.choose_streams) {
    target_.hello.streams = target_.choose_streams(taken_, local_host(fd_.get()), answer_us_);
  }
  sent_hello_ = make_tcp_hello(target_.token, challenge_, target_.hello);
  // A new socket's buffer holds the hello: a short write is a broken connection.
  iovec piece{sent_hello_.data(), sent_hello_.size()};
  const ssize_t sent = send_pieces(fd_.get(), &piece, 1);
  if (sent != static_cast<ssize_t>(sent_hello_.size())) return errno_status(sent < 0 ? errno : EIO, "send");
  TRIREME_ASSIGN_OR_RETURN(
      token_, reactor_->watch(fd_.get(), EPOLLIN, [self = shared_from_this()](Reactor::Token own, std::uint32_t) {
        const auto keep = self;  // forget() drops the handler that holds it.
        keep->token_ = own;
        keep->on_welcome();
      }));
  return Status::ok();
}

void TcpConnector::on_welcome() {
  if (!fd_.valid()) return;
  const Result<bool> welcome = receive_welcome();
  if (!welcome.is_ok()) return try_again(welcome.status());
  if (!*welcome) return reactor_->arm(token_, EPOLLIN);
  finish();
}

Result<bool> TcpConnector::receive_welcome() {
  // Exactly the message: what follows it belongs to the channel.
  while (received_.size() < kTcpWelcomeBytes) {
    char buffer[kTcpWelcomeBytes];
    const ssize_t got = receive_bytes(fd_.get(), buffer, kTcpWelcomeBytes - received_.size());
    if (got == 0) return peer_dead("the connection was closed after our hello");
    if (got < 0 && would_block(errno)) return false;
    if (got < 0) return errno_status(errno, "recv");
    received_.append(buffer, static_cast<std::size_t>(got));
  }
  TRIREME_RETURN_IF_ERROR(check_tcp_welcome(target_.token, challenge_, sent_hello_, received_));
  return true;
}

void TcpConnector::finish() {
  reactor_->forget(token_);
  on_reached_({taken_.address, explain()});
  TcpLink link;
  link.path = fmt::format("{} to {} ({})", local_host(fd_.get()), taken_.address, taken_.interface);
  link.fd = std::move(fd_);
  link.stream = target_.hello.stream;
  link.streams = target_.hello.streams;
  connection_->attach(std::move(link));
}

std::string TcpConnector::explain() const {
  std::string text =
      fmt::format("{} ({}{}) from {}, answered in {:.2f} ms; {} stream{}; chosen because it is the {}", taken_.address,
                  taken_.interface, taken_.speed_mbit > 0 ? fmt::format(", {} Mbit/s", taken_.speed_mbit) : "",
                  local_host(fd_.get()), answer_us_ / 1e3, target_.hello.streams, target_.hello.streams == 1 ? "" : "s",
                  target_.candidates.size() == 1 ? "only address" : "best that answered");
  for (const std::string& other : others_) text += "; " + other;
  for (const std::string& address : target_.excluded) text += "; " + address;
  return text;
}

void TcpConnector::try_again(const Status& why) {
  if (fd_.valid()) {
    refusal_ = taken_.address + ": " + why.message();
    reactor_->forget(token_);
    fd_.reset();
    // Whoever answered there is not the rank we look for: the others come first now.
    const auto found = std::find(target_.candidates.begin(), target_.candidates.end(), taken_);
    if (found != target_.candidates.end()) {
      found->grade += 10;
      std::stable_sort(target_.candidates.begin(), target_.candidates.end(), is_preferred);
    }
  }
  ++round_;
  if (give_up_at_.expired()) return connection_->fail(give_up());
  const std::uint64_t pause_ms = std::min(kLongestPauseMs, std::uint64_t{20} << std::min(round_, 8u));
  reactor_->run_at(Deadline::after_ms(pause_ms), [self = shared_from_this()] { self->start_round(); });
}

Status TcpConnector::give_up() const {
  std::string text = target_.peer + " cannot be reached by tcp:";
  const char* separator = " ";
  for (const auto& lines :
       {others_, refusal_.empty() ? std::vector<std::string>() : std::vector{refusal_}, target_.excluded}) {
    for (const std::string& line : lines) {
      text += separator + line;
      separator = "; ";
    }
  }
  text += ". Check firewalls between the hosts, and TRIREME_INTERFACE if they have several networks";
  log_line(LogLevel::error, "transport", text);
  return unavailable(std::move(text));
}

}  // namespace trireme
