#include "runtime/transport/tcp/tcp_drain.h"

#include <linux/sockios.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

#include "runtime/transport/tcp/tcp_stream.h"

namespace trireme {
namespace {

constexpr std::uint64_t kDrainMs = 3'000;
constexpr std::uint64_t kLookAgainMs = 10;

class Drain : public std::enable_shared_from_this<Drain> {
 public:
  Drain(std::shared_ptr<Reactor> reactor, UniqueFd fd, std::shared_ptr<void> lingering)
      : reactor_(std::move(reactor)), fd_(std::move(fd)), lingering_(std::move(lingering)) {}
  // A forked child may hold a copy: close alone would tell the peer nothing.
  ~Drain() { shutdown(fd_.get(), SHUT_RDWR); }

  void start() {
    shutdown(fd_.get(), SHUT_WR);
    if (done()) return;
    auto watched = reactor_->watch(fd_.get(), EPOLLIN, [self = shared_from_this()](Reactor::Token own, std::uint32_t) {
      const auto keep = self;  // forget() drops the handler that holds it.
      keep->token_ = own;
      keep->look();
    });
    if (!watched.is_ok()) return;
    look_later(*watched);
  }

 private:
  void look() {
    if (done()) return reactor_->forget(token_);
    reactor_->arm(token_, EPOLLIN);
  }

  void look_later(Reactor::Token token) {
    reactor_->run_at(Deadline::after_ms(kLookAgainMs), [weak = weak_from_this(), token] {
      const auto self = weak.lock();
      if (!self) return;
      if (self->done()) return self->reactor_->forget(token);
      self->look_later(token);
    });
  }

  // Only on the service thread, after start().
  bool done() {
    std::array<std::byte, 16 * 1024> dropped;
    for (;;) {
      const ssize_t got = receive_bytes(fd_.get(), dropped.data(), dropped.size());
      if (got > 0) continue;
      if (got == 0 || !would_block(errno)) return true;
      break;
    }
    int unacknowledged = 0;
    if (ioctl(fd_.get(), SIOCOUTQ, &unacknowledged) != 0 || unacknowledged == 0) return true;
    return until_.expired();
  }

  std::shared_ptr<Reactor> reactor_;
  UniqueFd fd_;
  std::shared_ptr<void> lingering_;
  Reactor::Token token_ = 0;
  Deadline until_ = Deadline::after_ms(kDrainMs);
};

}  // namespace

void drain_and_close(const std::shared_ptr<Reactor>& reactor, UniqueFd fd, std::shared_ptr<void> lingering) {
  std::make_shared<Drain>(reactor, std::move(fd), std::move(lingering))->start();
}

std::shared_ptr<void> TcpLingering::hold(const std::shared_ptr<TcpLingering>& lingering) {
  {
    const std::lock_guard lock(lingering->mutex_);
    ++lingering->count_;
  }
  return {nullptr, [lingering](void*) { lingering->end(); }};
}

void TcpLingering::end() {
  const std::lock_guard lock(mutex_);
  --count_;
  changed_.notify_all();
}

bool TcpLingering::wait(Deadline deadline) {
  std::unique_lock lock(mutex_);
  while (count_ > 0 && !deadline.expired()) {
    changed_.wait_for(lock, std::chrono::milliseconds(std::max(1, deadline.remaining_ms())));
  }
  return count_ == 0;
}

}  // namespace trireme
