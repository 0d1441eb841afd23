#include "runtime/rendezvous/local_store.h"

#include <chrono>

#include <fmt/core.h>

#include "runtime/rendezvous/protocol.h"

namespace trireme::store {

Status LocalStore::put(std::string_view key, std::string_view value) {
  TRIREME_RETURN_IF_ERROR(check_key(key));
  TRIREME_RETURN_IF_ERROR(check_value(key, value));
  {
    const std::lock_guard lock(mutex_);
    values_.insert_or_assign(std::string(key), std::string(value));
  }
  changed_.notify_all();
  return Status::ok();
}

Result<std::string> LocalStore::get(std::string_view key, Deadline deadline) {
  TRIREME_RETURN_IF_ERROR(check_key(key));
  std::unique_lock lock(mutex_);
  while (true) {
    const auto found = values_.find(std::string(key));
    if (found != values_.end()) return found->second;
    if (const auto failure = signals_->failures.first(0)) return failure->status;
    if (deadline.expired()) {
      return deadline_exceeded(fmt::format("nobody put the key \"{}\" in time, in a world of one rank", key));
    }
    if (deadline.is_never()) {
      changed_.wait(lock);
    } else {
      changed_.wait_for(lock, std::chrono::milliseconds(deadline.remaining_ms()));
    }
  }
}

Result<std::int64_t> LocalStore::add(std::string_view key, std::int64_t delta) {
  TRIREME_RETURN_IF_ERROR(check_key(key));
  const std::lock_guard lock(mutex_);
  std::int64_t& counter = counters_[std::string(key)];
  std::int64_t sum = 0;
  if (__builtin_add_overflow(counter, delta, &sum)) return counter_overflow(key, counter, delta);
  counter = sum;
  return sum;
}

Result<std::vector<std::string>> LocalStore::exchange(std::string_view name, const std::vector<int>& members,
                                                      std::string_view value, Deadline) {
  TRIREME_RETURN_IF_ERROR(check_key(name));
  TRIREME_RETURN_IF_ERROR(check_value(name, value));
  if (members != std::vector<int>{0}) {
    return invalid_argument(
        fmt::format("the members of exchange \"{}\" must be rank 0 alone: the world has one rank", name));
  }
  return std::vector<std::string>{std::string(value)};
}

Result<std::vector<int>> LocalStore::agree_on_survivors(std::string_view name, const std::vector<int>& members,
                                                        Deadline deadline) {
  TRIREME_RETURN_IF_ERROR(exchange(name, members, {}, deadline).status());
  return members;
}

void LocalStore::report_failure(const Failure& failure) {
  signals_->failures.raise(failure);
  const std::lock_guard lock(mutex_);  // A waiter is either before its check or asleep.
  changed_.notify_all();
}

std::vector<std::optional<std::string>> LocalStore::collect_activities(Deadline) {
  return {signals_->activity_sources->call_joined(std::string())};
}

}  // namespace trireme::store
