// Tells when memory that others own is given back to the kernel, so that a registration
// of it is not used for what is mapped there next. A device pins the pages it registered:
// after munmap (or free, which may call it) and a new mapping at the same address it
// would go on reading the old ones.
//
// The kernel reports through a userfaultfd: it makes munmap, mremap and
// madvise(MADV_DONTNEED) of a watched range wait until the event is read. The thread
// that reads it holds the monitor's lock from before the read until the watcher is told,
// so whoever holds the lock after its own munmap has returned finds everything told.
// No faults are asked for, and nothing is slower but these calls on watched ranges.
//
// Thread safety: all methods. REQUIRES: nothing is freed or unmapped while lock() is
// held, for the reading thread may be waiting for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include <trireme/base/status.h>

namespace trireme {

class MemoryMonitor {
 public:
  // `gone` is called with the lock held, on the monitor's thread: it must not free or unmap memory.
  using Gone = std::function<void(std::uintptr_t begin, std::uintptr_t end)>;

  // Errors: unavailable when the kernel or the sandbox has no userfaultfd with the events needed.
  static Result<std::unique_ptr<MemoryMonitor>> start(Gone gone);
  ~MemoryMonitor();

  // Watches the pages of [begin, end); false for memory of a kind that cannot be watched.
  bool watch(std::uintptr_t begin, std::uintptr_t end);
  std::unique_lock<std::mutex> lock();

 private:
  struct Impl;
  explicit MemoryMonitor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme
