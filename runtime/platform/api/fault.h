// Fault injection: the test's hand on the platform seam.
//
// Every system call that platform wraps asks inject_fault(site) first. In production
// no injector is installed and the question is one relaxed atomic load. A test installs
// one to make chosen calls fail with chosen errnos, or to delay them, from a seed.
#pragma once

#include <functional>
#include <string_view>

namespace trireme {

// Sites are named "file.open", "file.write", "file.fsync", "file.rename",
// "socket.connect", "socket.send", "socket.receive", "process.spawn", "memory.map", ...
// Returns 0, or the errno the call must fail with.
int inject_fault(std::string_view site);

// Installs `injector` for as long as the object lives. One at a time in a process.
class ScopedFaultInjector {
 public:
  explicit ScopedFaultInjector(std::function<int(std::string_view site)> injector);
  ~ScopedFaultInjector();
  ScopedFaultInjector(const ScopedFaultInjector&) = delete;
  ScopedFaultInjector& operator=(const ScopedFaultInjector&) = delete;
};

}  // namespace trireme
