#include "runtime/transport/verbs/memory_monitor.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <thread>

#include "runtime/platform/api/unique_fd.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

namespace trireme {
namespace {

constexpr std::uint64_t kEvents =
    UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_PAGEFAULT_FLAG_WP;

Result<UniqueFd> open_events() {
  // Without privileges only faults of user code may be handled; we handle none.
  UniqueFd fd(static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY)));
  if (!fd.valid()) fd = UniqueFd(static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK)));
  if (!fd.valid()) return unavailable(errno_status(errno, "userfaultfd").message());
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = kEvents;
  if (ioctl(fd.get(), UFFDIO_API, &api) != 0) {
    return unavailable(errno_status(errno, "userfaultfd with events of unmapping").message());
  }
  return fd;
}

}  // namespace

struct MemoryMonitor::Impl {
  UniqueFd events;
  UniqueFd stop;
  Gone gone;
  std::mutex mutex;
  std::thread thread;

  void take(const uffd_msg& message) {
    if (message.event == UFFD_EVENT_UNMAP || message.event == UFFD_EVENT_REMOVE) {
      gone(message.arg.remove.start, message.arg.remove.end);
    } else if (message.event == UFFD_EVENT_REMAP) {
      gone(message.arg.remap.from, message.arg.remap.from + message.arg.remap.len);
    }
  }

  void loop() {
    std::array<pollfd, 2> watched{{{events.get(), POLLIN, 0}, {stop.get(), POLLIN, 0}}};
    while ((watched[1].revents & POLLIN) == 0) {
      if (poll(watched.data(), watched.size(), -1) < 0 && errno != EINTR) return;
      const std::lock_guard lock(mutex);
      uffd_msg message{};
      while (read(events.get(), &message, sizeof message) == static_cast<ssize_t>(sizeof message)) take(message);
    }
  }
};

MemoryMonitor::MemoryMonitor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<MemoryMonitor>> MemoryMonitor::start(Gone gone) {
  auto impl = std::make_unique<Impl>();
  TRIREME_ASSIGN_OR_RETURN(impl->events, open_events());
  impl->stop = UniqueFd(eventfd(0, EFD_CLOEXEC));
  if (!impl->stop.valid()) return errno_status(errno, "eventfd for the memory monitor");
  impl->gone = std::move(gone);
  impl->thread = std::thread([raw = impl.get()] { raw->loop(); });
  return std::unique_ptr<MemoryMonitor>(new MemoryMonitor(std::move(impl)));
}

MemoryMonitor::~MemoryMonitor() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(impl_->stop.get(), &one, sizeof one);
  impl_->thread.join();
}

bool MemoryMonitor::watch(std::uintptr_t begin, std::uintptr_t end) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  uffdio_register range{};
  range.range.start = begin / page * page;
  range.range.len = (end + page - 1) / page * page - range.range.start;
  // Nothing is write-protected, so no fault ever comes; but the range's events do.
  range.mode = UFFDIO_REGISTER_MODE_WP;
  return ioctl(impl_->events.get(), UFFDIO_REGISTER, &range) == 0;
}

std::unique_lock<std::mutex> MemoryMonitor::lock() {
  return std::unique_lock(impl_->mutex);
}

}  // namespace trireme
