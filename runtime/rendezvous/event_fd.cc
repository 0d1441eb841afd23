#include "runtime/rendezvous/event_fd.h"

#include <sys/eventfd.h>

#include <cerrno>
#include <cstdint>

#include <unistd.h>

namespace trireme::store {

Result<EventFd> EventFd::create() {
  UniqueFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd.valid()) return errno_status(errno, "make an eventfd for the store's thread");
  return EventFd(std::move(fd));
}

void EventFd::signal() const {
  const std::uint64_t one = 1;
  while (::write(fd_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
  }
}

void EventFd::clear() const {
  std::uint64_t count = 0;
  while (::read(fd_.get(), &count, sizeof(count)) < 0 && errno == EINTR) {
  }
}

}  // namespace trireme::store
