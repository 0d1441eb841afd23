// retried: one system call with fault injection, repeated while it is interrupted.
#pragma once

#include <cerrno>
#include <string_view>

#include "runtime/platform/api/fault.h"

namespace trireme {

// Calls `call` until it does not fail with EINTR. When the site has an injected fault,
// fails with that errno and without calling. Returns what the call returns.
template <typename Call>
auto retried(std::string_view site, Call&& call) -> decltype(call()) {
  if (const int fault = inject_fault(site); fault != 0) {
    errno = fault;
    return -1;
  }
  while (true) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

}  // namespace trireme
