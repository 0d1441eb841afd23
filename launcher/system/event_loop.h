// EventLoop: one epoll and its timers. Everything the launcher waits for is watched
// here, so it never polls and never blocks anywhere else.
//
// Thread safety: none; one thread owns the loop and all handlers run on it. A handler
// may watch and forget any descriptor, its own included.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>

#include <trireme/base/status.h>

#include "runtime/platform/api/unique_fd.h"

namespace trireme {

class EventLoop {
 public:
  static constexpr std::uint32_t kRead = 1;   // EPOLLIN
  static constexpr std::uint32_t kWrite = 4;  // EPOLLOUT
  using Handler = std::function<void()>;

  static Result<std::unique_ptr<EventLoop>> create();

  // Calls `handler` whenever `fd` is ready for `interest`, has ended or has failed.
  // Errors: permission_denied for a regular file, which is always ready.
  Status watch(int fd, std::uint32_t interest, Handler handler);
  // Interest 0 parks the descriptor: nothing is reported until interest returns.
  Status set_interest(int fd, std::uint32_t interest);
  void forget(int fd);

  // Calls `handler` once, `delay_ms` from now.
  void after_ms(std::uint64_t delay_ms, Handler handler);
  // Waits for the next events and runs their handlers, in the order of their arrival.
  Status run_once();

 private:
  struct Watch {
    int fd = -1;
    std::uint32_t interest = 0;
    Handler handler;
  };
  explicit EventLoop(UniqueFd epoll) : epoll_(std::move(epoll)) {}
  void run_due_timers();
  int wait_ms() const;

  UniqueFd epoll_;
  std::uint64_t next_token_ = 1;
  // Tokens, not descriptors, are what the kernel hands back: a descriptor's number may
  // be reused within one batch of events.
  std::unordered_map<std::uint64_t, std::shared_ptr<Watch>> watches_;
  std::unordered_map<int, std::uint64_t> token_of_fd_;
  std::multimap<std::uint64_t, Handler> timers_;  // By monotonic nanoseconds.
};

}  // namespace trireme
