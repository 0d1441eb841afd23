#include "collectives/nccl_interface/outcome.h"

#include <mutex>

#include <fmt/core.h>
#include <trireme/telemetry/log.h>

namespace trireme::nccl {
namespace {

Code code_of(StatusCode code) {
  switch (code) {
    case StatusCode::ok:
      return Code::success;
    case StatusCode::invalid_argument:
      return Code::invalid_argument;
    case StatusCode::mismatch:
    case StatusCode::unsupported:
    case StatusCode::already_exists:
      return Code::invalid_usage;
    case StatusCode::peer_dead:
    case StatusCode::deadline_exceeded:
    case StatusCode::aborted:
    case StatusCode::stale_epoch:
      return Code::remote_error;
    case StatusCode::not_found:
    case StatusCode::permission_denied:
    case StatusCode::resource_exhausted:
    case StatusCode::unavailable:
    case StatusCode::io_error:
      return Code::system_error;
    case StatusCode::data_loss:
      return Code::internal_error;
  }
  return Code::internal_error;
}

// The C interface has one memory of the last error for all threads of a process; this
// thread's own comes first.
struct LastError {
  std::mutex mutex;
  std::string text;
};

LastError& process_error() {
  static LastError& error = *new LastError;  // Never destroyed: threads may outlive exit().
  return error;
}

thread_local std::string thread_error;

}  // namespace

Outcome::Outcome(const Status& status)
    : code(code_of(status.code())), text(status.is_ok() ? std::string() : status.to_string()) {}

Outcome bad_argument(std::string why) {
  return {Code::invalid_argument, std::move(why)};
}

Outcome bad_usage(std::string why) {
  return {Code::invalid_usage, std::move(why)};
}

Outcome in_progress() {
  return {Code::in_progress, {}};
}

const char* describe_code(int code) {
  static constexpr const char* kTexts[kCodeCount] = {
      "no error",
      "unhandled cuda error (ncclGetLastError says more)",
      "unhandled system error (ncclGetLastError says more)",
      "internal error (ncclGetLastError says more)",
      "invalid argument (ncclGetLastError says more)",
      "invalid usage (ncclGetLastError says more)",
      "remote process exited or there was a network error (ncclGetLastError says more)",
      "operation in progress",
  };
  return code >= 0 && code < kCodeCount ? kTexts[code] : "unknown result code";
}

int answer(const char* function, const Outcome& outcome) {
  if (outcome.code == Code::success || outcome.code == Code::in_progress) return static_cast<int>(outcome.code);
  thread_error = fmt::format("{}: {}", function, outcome.text);
  log_line(LogLevel::warn, "nccl", thread_error);
  LastError& shared = process_error();
  const std::lock_guard lock(shared.mutex);
  shared.text = thread_error;
  return static_cast<int>(outcome.code);
}

const char* last_error() {
  if (thread_error.empty()) {
    LastError& shared = process_error();
    const std::lock_guard lock(shared.mutex);
    thread_error = shared.text;
  }
  return thread_error.c_str();
}

}  // namespace trireme::nccl
