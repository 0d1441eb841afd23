#include "runtime/transport/tcp/tcp_race.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include <fmt/core.h>

#include <trireme/platform/clock.h>

#include "runtime/transport/tcp/tcp_addresses.h"
#include "runtime/transport/tcp/tcp_stream.h"

namespace trireme {
namespace {
constexpr std::size_t kNone = SIZE_MAX;
constexpr double kLeastSettleMs = 50;
}  // namespace

TcpRace::TcpRace(std::shared_ptr<Reactor> reactor, std::vector<TcpCandidate> candidates, TcpRaceOptions options,
                 Done done)
    : reactor_(std::move(reactor)),
      candidates_(std::move(candidates)),
      options_(std::move(options)),
      done_(std::move(done)),
      attempts_(candidates_.size()) {}

double TcpRace::elapsed_us() const {
  return static_cast<double>(system_clock().now_ns() - started_ns_) / 1e3;
}

void TcpRace::start() {
  const auto keep = shared_from_this();
  started_ns_ = system_clock().now_ns();
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (Status status = begin(i); !status.is_ok()) fail(i, status);
  }
  reactor_->run_at(Deadline::after_ms(options_.patience_ms), [self = shared_from_this()] { self->decide(true); });
  decide(false);
}

Status TcpRace::begin(std::size_t index) {
  Attempt& attempt = attempts_[index];
  TRIREME_ASSIGN_OR_RETURN(const NumericAddress address, numeric_address(candidates_[index].address));
  attempt.fd = UniqueFd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!attempt.fd.valid()) return errno_status(errno, "socket");
  set_tcp_options(attempt.fd.get());
  int error = 0;
  if (connect(attempt.fd.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.length) != 0) {
    error = errno;
  }
  if (error != 0 && error != EINPROGRESS && error != EINTR) return errno_status(error, "connect");
  TRIREME_ASSIGN_OR_RETURN(
      attempt.token,
      reactor_->watch(attempt.fd.get(), EPOLLOUT, [self = shared_from_this(), index](Reactor::Token, std::uint32_t) {
        const auto keep = self;  // forget() drops the handler that holds it.
        keep->on_ready(index);
      }));
  return Status::ok();
}

void TcpRace::on_ready(std::size_t index) {
  Attempt& attempt = attempts_[index];
  if (over_ || attempt.state != State::pending || !attempt.fd.valid()) return;
  const Result<bool> complete = advance(attempt);
  if (!complete.is_ok()) {
    fail(index, complete.status());
  } else if (*complete) {
    attempt.state = State::answered;
    attempt.answer_us = elapsed_us();
  } else {
    return reactor_->arm(attempt.token, EPOLLIN);
  }
  decide(false);
}

Result<bool> TcpRace::advance(Attempt& attempt) {
  if (!attempt.connected) {
    int error = 0;
    socklen_t length = sizeof error;
    if (getsockopt(attempt.fd.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
    if (error != 0) return errno_status(error, "connect");
    TRIREME_RETURN_IF_ERROR(check_local(attempt.fd.get()));
    attempt.connected = true;
  }
  // Exactly the challenge: what follows belongs to the next message.
  while (attempt.challenge.size() < kTcpChallengeBytes) {
    char buffer[kTcpChallengeBytes];
    const ssize_t got = receive_bytes(attempt.fd.get(), buffer, kTcpChallengeBytes - attempt.challenge.size());
    if (got == 0) return peer_dead("the connection was closed");
    if (got < 0 && would_block(errno)) return false;
    if (got < 0) return errno_status(errno, "recv");
    attempt.challenge.append(buffer, static_cast<std::size_t>(got));
  }
  TRIREME_RETURN_IF_ERROR(check_tcp_challenge(attempt.challenge));
  return true;
}

Status TcpRace::check_local(int fd) const {
  if (options_.local_hosts.empty()) return Status::ok();
  const std::string host = local_host(fd);
  const auto& hosts = options_.local_hosts;
  if (std::find(hosts.begin(), hosts.end(), host) != hosts.end()) return Status::ok();
  return permission_denied("it is reached from " + host + ", which TRIREME_INTERFACE leaves out");
}

void TcpRace::fail(std::size_t index, const Status& why) {
  Attempt& attempt = attempts_[index];
  attempt.state = State::failed;
  attempt.reason = why.message();
  if (attempt.token != 0) reactor_->forget(attempt.token);
  attempt.fd.reset();
}

// The first attempt of this state in order of preference.
std::size_t TcpRace::best(State state) const {
  for (std::size_t i = 0; i < attempts_.size(); ++i) {
    if (attempts_[i].state == state) return i;
  }
  return kNone;
}

void TcpRace::decide(bool time_is_up) {
  if (over_) return;
  const std::size_t answered = best(State::answered);
  const std::size_t pending = best(State::pending);
  if (pending == kNone || time_is_up) return finish(answered);
  if (answered == kNone) return;
  if (!is_preferred(candidates_[pending], candidates_[answered])) return finish(answered);
  if (settling_) return;
  settling_ = true;
  const double settle_ms = std::max(kLeastSettleMs, attempts_[answered].answer_us / 1e3 * 3);
  reactor_->run_at(Deadline::after_ms(static_cast<std::uint64_t>(settle_ms)),
                   [self = shared_from_this()] { self->decide(true); });
}

void TcpRace::finish(std::size_t winner) {
  over_ = true;
  const auto elapsed_ms = static_cast<long>(elapsed_us() / 1e3);
  for (std::size_t i = 0; i < attempts_.size(); ++i) {
    Attempt& attempt = attempts_[i];
    if (attempt.state == State::failed) continue;
    if (attempt.token != 0) reactor_->forget(attempt.token);
    if (i == winner) continue;
    attempt.reason = attempt.state == State::answered
                         ? fmt::format("answered in {:.2f} ms, not preferred", attempt.answer_us / 1e3)
                     : attempt.connected ? fmt::format("connected, but nobody answered in {} ms", elapsed_ms)
                                         : fmt::format("no answer in {} ms", elapsed_ms);
    attempt.fd.reset();
  }
  const Done done = std::move(done_);
  if (winner == kNone) return done(*this, nullptr, nullptr);
  Attempt& attempt = attempts_[winner];
  Winner result{std::move(attempt.fd), std::move(attempt.challenge), attempt.answer_us};
  done(*this, &candidates_[winner], &result);
}

std::vector<std::string> TcpRace::report() const {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < attempts_.size(); ++i) {
    if (attempts_[i].reason.empty()) continue;
    lines.push_back(fmt::format("{} ({}): {}", candidates_[i].address, candidates_[i].interface, attempts_[i].reason));
  }
  return lines;
}

}  // namespace trireme
