#include "launcher/system/event_loop.h"

#include <sys/epoll.h>

#include <cerrno>
#include <string>

#include <trireme/platform/clock.h>

namespace trireme {

static_assert(EventLoop::kRead == EPOLLIN && EventLoop::kWrite == EPOLLOUT);

Result<std::unique_ptr<EventLoop>> EventLoop::create() {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return errno_status(errno, "create the launcher's event loop");
  return std::unique_ptr<EventLoop>(new EventLoop(std::move(epoll)));
}

Status EventLoop::watch(int fd, std::uint32_t interest, Handler handler) {
  const std::uint64_t token = next_token_++;
  epoll_event event{};
  event.events = interest;
  event.data.u64 = token;
  if (interest != 0 && ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return errno_status(errno, "watch descriptor " + std::to_string(fd));
  }
  watches_[token] = std::make_shared<Watch>(Watch{fd, interest, std::move(handler)});
  token_of_fd_[fd] = token;
  return Status::ok();
}

// A parked descriptor leaves the epoll set: with interest 0 the kernel would go on
// reporting its end, without pause.
Status EventLoop::set_interest(int fd, std::uint32_t interest) {
  const auto found = token_of_fd_.find(fd);
  TRIREME_CHECK(found != token_of_fd_.end(), "interest set for a descriptor that is not watched");
  Watch& entry = *watches_[found->second];
  if (entry.interest == interest) return Status::ok();
  const int operation = interest == 0 ? EPOLL_CTL_DEL : entry.interest == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  epoll_event event{};
  event.events = interest;
  event.data.u64 = found->second;
  if (::epoll_ctl(epoll_.get(), operation, fd, &event) != 0) {
    return errno_status(errno, "watch descriptor " + std::to_string(fd));
  }
  entry.interest = interest;
  return Status::ok();
}

void EventLoop::forget(int fd) {
  const auto found = token_of_fd_.find(fd);
  if (found == token_of_fd_.end()) return;
  if (watches_[found->second]->interest != 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  watches_.erase(found->second);
  token_of_fd_.erase(found);
}

void EventLoop::after_ms(std::uint64_t delay_ms, Handler handler) {
  timers_.emplace(system_clock().now_ns() + delay_ms * 1'000'000, std::move(handler));
}

int EventLoop::wait_ms() const {
  if (timers_.empty()) return -1;
  return Deadline::at_ns(timers_.begin()->first).remaining_ms();
}

void EventLoop::run_due_timers() {
  while (!timers_.empty() && timers_.begin()->first <= system_clock().now_ns()) {
    const Handler handler = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    handler();
  }
}

Status EventLoop::run_once() {
  epoll_event events[64];
  const int ready = ::epoll_wait(epoll_.get(), events, 64, wait_ms());
  if (ready < 0 && errno != EINTR) return errno_status(errno, "wait for events");
  for (int i = 0; i < ready; ++i) {
    const auto found = watches_.find(events[i].data.u64);
    if (found == watches_.end()) continue;  // Forgotten by an earlier handler of this batch.
    const std::shared_ptr<Watch> keep = found->second;
    if (keep->interest != 0) keep->handler();
  }
  run_due_timers();
  return Status::ok();
}

}  // namespace trireme
