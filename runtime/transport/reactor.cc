#include "runtime/transport/api/reactor.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "runtime/platform/api/unique_fd.h"

namespace trireme {
namespace {
constexpr Reactor::Token kWakeToken = 0;
}

struct Reactor::Impl {
  struct Watch {
    int fd;
    std::shared_ptr<Handler> handler;
  };

  UniqueFd epoll;
  UniqueFd wake;
  std::mutex mutex;
  std::unordered_map<Token, Watch> watches;
  std::multimap<std::uint64_t, std::function<void()>> timers;  // By time in ns.
  Token next_token = 1;
  std::atomic<bool> stopping{false};
  std::thread thread;

  void signal() {
    const std::uint64_t one = 1;
    // Fails only when the counter is full, and then the thread wakes anyway.
    [[maybe_unused]] const ssize_t written = write(wake.get(), &one, sizeof one);
  }

  int next_timeout_ms() {
    const std::lock_guard lock(mutex);
    return timers.empty() ? -1 : Deadline::at_ns(timers.begin()->first).remaining_ms();
  }

  void run_due_timers() {
    for (;;) {
      std::function<void()> work;
      {
        const std::lock_guard lock(mutex);
        if (timers.empty() || !Deadline::at_ns(timers.begin()->first).expired()) return;
        work = std::move(timers.begin()->second);
        timers.erase(timers.begin());
      }
      work();
    }
  }

  void dispatch(const epoll_event& event) {
    if (event.data.u64 == kWakeToken) {
      std::uint64_t count = 0;
      [[maybe_unused]] const ssize_t got = read(wake.get(), &count, sizeof count);
      return;
    }
    std::shared_ptr<Handler> handler;
    {
      const std::lock_guard lock(mutex);
      const auto found = watches.find(event.data.u64);
      if (found == watches.end()) return;
      handler = found->second.handler;
    }
    (*handler)(event.data.u64, event.events);
  }

  void loop() {
    std::array<epoll_event, 64> events;
    while (!stopping.load(std::memory_order_acquire)) {
      const int ready = epoll_wait(epoll.get(), events.data(), events.size(), next_timeout_ms());
      for (int i = 0; i < ready && !stopping.load(std::memory_order_acquire); ++i) dispatch(events[i]);
      if (!stopping.load(std::memory_order_acquire)) run_due_timers();
    }
  }
};

Reactor::Reactor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Reactor::~Reactor() {
  stop();
}

Result<std::shared_ptr<Reactor>> Reactor::start() {
  auto impl = std::make_unique<Impl>();
  impl->epoll = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  if (!impl->epoll.valid()) return errno_status(errno, "epoll_create1 for the transport's service thread");
  impl->wake = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!impl->wake.valid()) return errno_status(errno, "eventfd for the transport's service thread");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kWakeToken;
  if (epoll_ctl(impl->epoll.get(), EPOLL_CTL_ADD, impl->wake.get(), &event) != 0) {
    return errno_status(errno, "epoll_ctl for the transport's service thread");
  }
  Impl* raw = impl.get();
  std::shared_ptr<Reactor> reactor(new Reactor(std::move(impl)));
  raw->thread = std::thread([raw] { raw->loop(); });
  return reactor;
}

Result<Reactor::Token> Reactor::watch(int fd, std::uint32_t events, Handler handler) {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->stopping.load(std::memory_order_acquire)) return aborted("the fabric's service thread has ended");
  const Token token = impl_->next_token++;
  epoll_event event{};
  event.events = events | EPOLLONESHOT;
  event.data.u64 = token;
  impl_->watches[token] = {fd, std::make_shared<Handler>(std::move(handler))};
  if (epoll_ctl(impl_->epoll.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    const int error = errno;
    impl_->watches.erase(token);
    return errno_status(error, "epoll_ctl(ADD) of a transport's descriptor");
  }
  return token;
}

void Reactor::arm(Token token, std::uint32_t events) {
  const std::lock_guard lock(impl_->mutex);
  const auto found = impl_->watches.find(token);
  if (found == impl_->watches.end()) return;
  epoll_event event{};
  event.events = events | EPOLLONESHOT;
  event.data.u64 = token;
  epoll_ctl(impl_->epoll.get(), EPOLL_CTL_MOD, found->second.fd, &event);
}

void Reactor::forget(Token token) {
  std::shared_ptr<Handler> handler;  // Destroyed after the lock is released.
  const std::lock_guard lock(impl_->mutex);
  const auto found = impl_->watches.find(token);
  if (found == impl_->watches.end()) return;
  epoll_ctl(impl_->epoll.get(), EPOLL_CTL_DEL, found->second.fd, nullptr);
  handler = std::move(found->second.handler);
  impl_->watches.erase(found);
}

void Reactor::run_at(Deadline time, std::function<void()> work) {
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->stopping.load(std::memory_order_acquire)) return;
    impl_->timers.emplace(time.at_ns(), std::move(work));
  }
  impl_->signal();
}

void Reactor::stop() {
  if (!impl_->thread.joinable()) return;
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stopping.store(true, std::memory_order_release);
  }
  impl_->signal();
  impl_->thread.join();
  // Handlers and timers keep their owners alive: let go of them, outside the lock.
  std::unordered_map<Token, Impl::Watch> watches;
  std::multimap<std::uint64_t, std::function<void()>> timers;
  const std::lock_guard lock(impl_->mutex);
  watches.swap(impl_->watches);
  timers.swap(impl_->timers);
}

}  // namespace trireme
