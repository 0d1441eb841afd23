// Status and Result: how Trireme reports what the world does wrong.
//
// A Status says whether an operation worked. One that did not carries a code, for
// programs, and a message, for people; the message names the thing, the place, what
// was expected and what to do next. What *we* did wrong (a broken invariant) is not a
// Status: it stops the program through TRIREME_CHECK (check.h).
//
// Thread safety: values; const access from several threads is safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <trireme/base/check.h>

namespace trireme {

enum class StatusCode {
  ok = 0,
  invalid_argument,    // The caller's input is wrong; the same call fails again.
  not_found,           // A named thing (file, key, program) does not exist.
  already_exists,      // A thing that had to be new is there already.
  permission_denied,   // The operating system or a secret said no.
  resource_exhausted,  // Disk, memory, descriptors or a quota ran out.
  deadline_exceeded,   // A peer or a service did not answer in time; the message names it.
  peer_dead,           // A rank's process or host is gone; the message names it.
  mismatch,            // Ranks disagree about the call they make; the message shows both.
  aborted,             // The operation was given up on purpose (abort, shutdown, earlier error).
  stale_epoch,         // A newer attempt of the same job exists; this one must stop.
  data_loss,           // Stored or received bytes are not what was written (checksum, length).
  unavailable,         // Not to be had here and now (no such device, library not installed).
  unsupported,         // A valid request that this build or backend cannot serve.
  io_error,            // A system call failed in a way no code above says better.
};

// "invalid_argument", "peer_dead", ...
std::string_view to_string(StatusCode code);

// The exit code a command-line program ends with for `code`: 2 for what the caller
// can mend (invalid_argument, not_found, already_exists, permission_denied,
// resource_exhausted, unsupported), 1 for the rest, 0 for ok.
int exit_code(StatusCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;  // ok
  Status(StatusCode code, std::string message);

  static Status ok() { return {}; }

  bool is_ok() const { return rep_ == nullptr; }
  explicit operator bool() const { return is_ok(); }
  StatusCode code() const { return rep_ ? rep_->code : StatusCode::ok; }
  // Empty when ok.
  const std::string& message() const;
  // "peer_dead: rank 3 ...", or "ok".
  std::string to_string() const;

  // A copy whose message begins with "context: "; ok stays ok.
  Status with_context(std::string_view context) const;

 private:
  struct Rep {
    StatusCode code;
    std::string message;
  };
  std::shared_ptr<const Rep> rep_;  // Null when ok, so the common case is one pointer.
};

Status invalid_argument(std::string message);
Status not_found(std::string message);
Status already_exists(std::string message);
Status permission_denied(std::string message);
Status resource_exhausted(std::string message);
Status deadline_exceeded(std::string message);
Status peer_dead(std::string message);
Status mismatch(std::string message);
Status aborted(std::string message);
Status stale_epoch(std::string message);
Status data_loss(std::string message);
Status unavailable(std::string message);
Status unsupported(std::string message);
Status io_error(std::string message);

// The Status for a failed system call: the code follows errno (ENOENT is not_found,
// ENOSPC resource_exhausted, ...), the message reads "what: ENOSPC (No space left on
// device)". `what` should say which call, on what, and what the caller wanted.
Status errno_status(int error_number, std::string_view what);

// A value, or the Status that says why there is none.
// REQUIRES: value access only when is_ok(); anything else stops the program.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT: implicit on purpose
  Result(Status status) : status_(std::move(status)) {  // NOLINT: implicit on purpose
    TRIREME_CHECK(!status_.is_ok(), "Result built from an ok Status without a value");
  }

  bool is_ok() const { return value_.has_value(); }
  explicit operator bool() const { return is_ok(); }
  const Status& status() const { return status_; }

  T& value() & {
    check_ok();
    return *value_;
  }
  const T& value() const& {
    check_ok();
    return *value_;
  }
  T&& value() && {
    check_ok();
    return std::move(*value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  void check_ok() const {
    if (!value_.has_value()) detail::check_failed("result.is_ok()", __FILE__, __LINE__, status_.to_string().c_str());
  }
  Status status_;
  std::optional<T> value_;
};

}  // namespace trireme

// Returns from the enclosing function when `expression` (a Status) is not ok.
#define TRIREME_RETURN_IF_ERROR(expression)               \
  do {                                                    \
    ::trireme::Status trireme_status_ = (expression);     \
    if (!trireme_status_.is_ok()) return trireme_status_; \
  } while (false)

#define TRIREME_CONCAT_INNER_(a, b) a##b
#define TRIREME_CONCAT_(a, b) TRIREME_CONCAT_INNER_(a, b)

// `TRIREME_ASSIGN_OR_RETURN(auto file, open(path));` declares or assigns the left side
// from a Result, or returns its Status.
#define TRIREME_ASSIGN_OR_RETURN(left, expression) \
  TRIREME_ASSIGN_OR_RETURN_(TRIREME_CONCAT_(trireme_result_, __COUNTER__), left, expression)
#define TRIREME_ASSIGN_OR_RETURN_(result, left, expression) \
  auto result = (expression);                               \
  if (!result.is_ok()) return result.status();              \
  left = std::move(result).value()
