// Reactor: the one service thread of a fabric. It sleeps in epoll_wait and runs a
// handler when a descriptor becomes ready or a timer expires; it is idle, and uses no
// processor, as long as nothing happens.
//
// Descriptors are watched one shot at a time: after a handler ran, arm() asks for the
// next event. Asking when the descriptor is ready already fires at once.
// Thread safety: every method from any thread. A handler that is running when forget()
// is called may finish after it; handlers hold by shared_ptr what they use.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include <trireme/base/status.h>
#include <trireme/platform/clock.h>

namespace trireme {

class Reactor {
 public:
  using Token = std::uint64_t;
  // `events` are EPOLLIN, EPOLLOUT, EPOLLRDHUP, EPOLLERR and EPOLLHUP bits; `token` is
  // what watch() returns, and may come here before watch() has returned.
  using Handler = std::function<void(Token token, std::uint32_t events)>;

  static Result<std::shared_ptr<Reactor>> start();
  ~Reactor();

  // Watches `fd`, disarmed when events is 0.
  // REQUIRES: forget(token) before the descriptor is closed (a forked child may hold a
  // copy of it, so that close alone does not end the watch). Errors: aborted after stop().
  Result<Token> watch(int fd, std::uint32_t events, Handler handler);
  void arm(Token token, std::uint32_t events);
  void forget(Token token);

  // Runs `work` once on the thread, at the given time or as soon as possible;
  // dropped after stop().
  void run_at(Deadline time, std::function<void()> work);
  void run_soon(std::function<void()> work) { run_at(Deadline::at_ns(0), std::move(work)); }

  // Ends the thread; afterwards no handler runs. Called by the owner, never by a handler.
  void stop();

 private:
  struct Impl;
  explicit Reactor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme
