// Wakes a thread that sleeps in poll(2) or epoll_wait(2).
// Thread safety: all methods.
#pragma once

#include <trireme/base/status.h>

#include "runtime/platform/api/unique_fd.h"

namespace trireme::store {

class EventFd {
 public:
  static Result<EventFd> create();
  void signal() const;
  void clear() const;
  int fd() const { return fd_.get(); }

 private:
  explicit EventFd(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace trireme::store
