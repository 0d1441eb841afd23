#include "runtime/rendezvous/store_driver.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

#include <trireme/platform/clock.h>

#include "runtime/platform/api/process.h"
#include "runtime/rendezvous/fork_hold.h"
#include "runtime/rendezvous/socket_options.h"
#include "runtime/telemetry/api/log_format.h"

namespace trireme::store {
namespace {

constexpr ConnectionId kWakeTag = 0;
constexpr ConnectionId kListenerTag = 1;
constexpr std::uint64_t kDrainMs = 2000;
constexpr std::uint64_t kFinishMs = 1000;
constexpr std::uint64_t kAcceptPauseMs = 100;
constexpr std::size_t kReadBytes = 64 * 1024;
constexpr std::size_t kDroppableAboveBytes = std::size_t{1} << 20;
constexpr std::size_t kMaxOutputBytes = std::size_t{1} << 30;

std::uint64_t now_ms() {
  return system_clock().now_ns() / 1'000'000;
}

void watch(int epoll, int operation, int fd, std::uint32_t events, ConnectionId tag) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag;
  TRIREME_CHECK(::epoll_ctl(epoll, operation, fd, &event) == 0, "epoll_ctl on a descriptor of ours");
}

}  // namespace

StoreDriver::StoreDriver(Listener listener, EventFd wake, UniqueFd epoll, StoreConfig config, NotifyCallback on_notify)
    : listener_(std::move(listener)),
      wake_(std::move(wake)),
      epoll_(std::move(epoll)),
      on_notify_(std::move(on_notify)),
      same_user_only_(config.secret.empty() && listener_.address().text.rfind("unix:", 0) == 0),
      state_(std::move(config)) {
  watch(epoll_.get(), EPOLL_CTL_ADD, wake_.fd(), EPOLLIN, kWakeTag);
  watch(epoll_.get(), EPOLL_CTL_ADD, listener_.fd(), EPOLLIN, kListenerTag);
  ForkHold::prepare();
  thread_ = std::thread([this] { loop(); });
}

StoreDriver::~StoreDriver() {
  {
    const std::lock_guard lock(mutex_);
    state_.close_all("the job's store was closed in order", queued_);
    stop_ = true;
  }
  wake_.signal();
  thread_.join();
}

void StoreDriver::apply(const std::function<void(StoreState&, Actions&)>& event) {
  {
    const std::lock_guard lock(mutex_);
    event(state_, queued_);
  }
  changed_.notify_all();
  wake_.signal();
}

std::string StoreDriver::describe_membership() const {
  const std::lock_guard lock(mutex_);
  return state_.describe_membership(now_ms());
}

bool StoreDriver::wait_until_empty(Deadline deadline) const {
  std::unique_lock lock(mutex_);
  while (state_.connected_members() > 0) {
    if (deadline.expired()) return false;
    if (deadline.is_never()) {
      changed_.wait(lock);
    } else {
      changed_.wait_for(lock, std::chrono::milliseconds(deadline.remaining_ms()));
    }
  }
  return true;
}

void StoreDriver::loop() {
  std::array<epoll_event, 64> events;  // On the stack: a forked child has no thread to free it.
  while (true) {
    const int ready = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), next_timeout_ms());
    TRIREME_CHECK(ready >= 0 || errno == EINTR, "epoll_wait on a descriptor of ours");
    const ForkHold hold;
    for (int i = 0; i < ready; ++i) {
      const ConnectionId tag = events[i].data.u64;
      if (tag == kWakeTag) {
        wake_.clear();
      } else if (tag == kListenerTag) {
        accept_all();
      } else if (const auto found = peers_.find(tag); found != peers_.end()) {
        if ((events[i].events & EPOLLOUT) != 0) flush(tag, found->second);
        if ((events[i].events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) on_readable(tag);
      }
      carry_out();
    }
    run_timers(now_ms());
    carry_out();
    forget_proofs();
    changed_.notify_all();
    const std::lock_guard lock(mutex_);
    if (stop_ && queued_.empty()) break;
  }
  finish();
}

int StoreDriver::next_timeout_ms() const {
  const ForkHold hold;
  return timeout_ms(now_ms());
}

int StoreDriver::timeout_ms(std::uint64_t now) const {
  std::uint64_t next = UINT64_MAX;
  {
    const std::lock_guard lock(mutex_);
    if (stop_ || !queued_.empty()) return 0;
    next = state_.next_timer_ms().value_or(UINT64_MAX);
  }
  if (!drain_timers_.empty()) next = std::min(next, drain_timers_.front().first);
  if (accept_again_ms_ != 0) next = std::min(next, accept_again_ms_);
  if (next == UINT64_MAX) return -1;
  return next <= now ? 0 : static_cast<int>(std::min<std::uint64_t>(next - now, 60'000));
}

void StoreDriver::accept_all() {
  while (true) {
    Result<Socket> accepted = listener_.try_accept();
    if (!accepted.is_ok()) {
      TRIREME_LOG_WARN("store", "{}; trying again in {} ms", accepted.status().to_string(), kAcceptPauseMs);
      return pause_accepting(now_ms());
    }
    if (!accepted->valid()) return;
    if (same_user_only_ && !is_same_user(accepted->fd())) {
      TRIREME_LOG_WARN("store", "refuses a client of another user on {}", address());
      continue;
    }
    enable_keepalive(accepted->fd());
    const ConnectionId id = next_connection_++;
    Peer& peer = peers_[id];
    peer.socket = std::move(*accepted);
    watch(epoll_.get(), EPOLL_CTL_ADD, peer.socket.fd(), EPOLLIN, id);
    const std::lock_guard lock(mutex_);
    state_.connected(id, peer.socket.peer(), random_hex(kNonceBytes / 2), now_ms(), queued_);
  }
}

// Out of descriptors or memory: a ready listener would spin the loop.
void StoreDriver::pause_accepting(std::uint64_t now) {
  watch(epoll_.get(), EPOLL_CTL_MOD, listener_.fd(), 0, kListenerTag);
  accept_again_ms_ = now + kAcceptPauseMs;
}

void StoreDriver::on_readable(ConnectionId id) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;  // Lost while its queue was flushed.
  Peer& peer = found->second;
  char buffer[kReadBytes];
  const Result<std::size_t> got = peer.socket.receive_some(buffer, sizeof(buffer));
  if (!got.is_ok()) return lose(id);
  if (peer.closing || *got == 0) return;
  peer.reader.append(buffer, *got);
  deliver(id, peer);
}

bool StoreDriver::deliver(ConnectionId id, Peer& peer) {
  while (!peer.closing) {
    Result<std::optional<Frame>> frame = peer.reader.next();
    if (frame.is_ok() && !frame->has_value()) return true;
    {
      const std::lock_guard lock(mutex_);
      if (frame.is_ok()) {
        state_.received(id, **frame, now_ms(), queued_);
      } else {
        state_.malformed(id, frame.status(), now_ms(), queued_);
      }
      if (!peer.member && state_.is_member(id)) {
        peer.member = true;
        peer.reader.set_max_frame_bytes(kMaxRequestBytes);
      }
    }
    carry_out();
    if (!frame.is_ok()) return false;
    if (peers_.count(id) == 0) return false;
  }
  return false;
}

void StoreDriver::lose(ConnectionId id) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  const bool known = !found->second.closing;
  peers_.erase(found);  // Closing the descriptor takes it out of the epoll set.
  if (!known) return;
  const std::lock_guard lock(mutex_);
  state_.disconnected(id, now_ms(), queued_);
}

void StoreDriver::carry_out() {
  while (true) {
    Actions actions;
    {
      const std::lock_guard lock(mutex_);
      actions.swap(queued_);
    }
    if (actions.empty()) return;
    std::vector<ConnectionId> touched;
    for (const Action& action : actions) {
      carry_out(action);
      if (action.kind == Action::Kind::send || action.kind == Action::Kind::close) touched.push_back(action.connection);
    }
    std::sort(touched.begin(), touched.end());
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
    for (const ConnectionId id : touched) {
      if (const auto found = peers_.find(id); found != peers_.end()) flush(id, found->second);
    }
  }
}

void StoreDriver::carry_out(const Action& action) {
  if (action.kind == Action::Kind::log) {
    if (log_enabled(action.level, "store")) log_line(action.level, "store", action.text);
    return;
  }
  if (action.kind == Action::Kind::notify) {
    if (on_notify_) on_notify_(action.rank, action.topic, action.text);
    return;
  }
  const auto found = peers_.find(action.connection);
  if (found == peers_.end()) return;
  Peer& peer = found->second;
  if (action.kind == Action::Kind::close) {
    peer.closing = true;
    drain_timers_.emplace_back(now_ms() + kDrainMs, action.connection);
    return;
  }
  if (peer.closing || (action.droppable && peer.output.bytes() > kDroppableAboveBytes)) return;
  peer.output.push(action.type, action.id, action.payload);
}

void StoreDriver::flush(ConnectionId id, Peer& peer) {
  if (!peer.output.flush(peer.socket).is_ok()) return lose(id);
  if (peer.output.bytes() > kMaxOutputBytes) {
    TRIREME_LOG_WARN("store", "{} does not read: {} bytes wait for it", peer.socket.peer(), peer.output.bytes());
    return lose(id);
  }
  if (peer.closing && !peer.shut && peer.output.empty()) {
    peer.shut = true;
    ::shutdown(peer.socket.fd(), SHUT_WR);
  }
  if (peer.wants_write == !peer.output.empty()) return;
  peer.wants_write = !peer.output.empty();
  watch(epoll_.get(), EPOLL_CTL_MOD, peer.socket.fd(), EPOLLIN | (peer.wants_write ? EPOLLOUT : 0U), id);
}

void StoreDriver::run_timers(std::uint64_t now) {
  while (!drain_timers_.empty() && drain_timers_.front().first <= now) {
    peers_.erase(drain_timers_.front().second);
    drain_timers_.pop_front();
  }
  if (accept_again_ms_ != 0 && accept_again_ms_ <= now) {
    accept_again_ms_ = 0;
    watch(epoll_.get(), EPOLL_CTL_MOD, listener_.fd(), EPOLLIN, kListenerTag);
  }
  const std::lock_guard lock(mutex_);
  state_.tick(now, queued_);
}

// Everybody has been told; their last words may still be on the way.
void StoreDriver::finish() {
  listener_.close();
  const std::uint64_t end_ms = now_ms() + kFinishMs;
  std::array<epoll_event, 64> events;
  while (!peers_.empty() && now_ms() < end_ms) {
    const int ready = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                   static_cast<int>(end_ms - std::min(end_ms, now_ms())));
    const ForkHold hold;
    for (int i = 0; i < ready; ++i) {
      const ConnectionId tag = events[i].data.u64;
      if (tag == kWakeTag) {
        wake_.clear();
      } else if (const auto found = peers_.find(tag); found != peers_.end()) {
        if ((events[i].events & EPOLLOUT) != 0) flush(tag, found->second);
        if ((events[i].events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) on_readable(tag);
      }
    }
  }
  peers_.clear();
}

}  // namespace trireme::store
