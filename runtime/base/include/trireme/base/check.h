// TRIREME_CHECK: assertions that stay on in every build.
//
// For what would be our own mistake, never for user input or for the outside world
// (those return Status). A failed check prints the condition, the place and the
// message to stderr and aborts.
#pragma once

namespace trireme::detail {
[[noreturn]] void check_failed(const char* condition, const char* file, int line, const char* message);
}  // namespace trireme::detail

#define TRIREME_CHECK(condition, message)              \
  (static_cast<bool>(condition) ? static_cast<void>(0) \
                                : ::trireme::detail::check_failed(#condition, __FILE__, __LINE__, message))

// Like TRIREME_CHECK, but only in builds without NDEBUG: for hot loops.
#ifdef NDEBUG
#define TRIREME_DCHECK(condition, message) static_cast<void>(0)
#else
#define TRIREME_DCHECK(condition, message) TRIREME_CHECK(condition, message)
#endif
