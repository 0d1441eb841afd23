#include "runtime/rendezvous/failure_board.h"

#include <algorithm>

namespace trireme::store {

std::optional<Failure> FailureBoard::first(std::uint64_t context) const {
  if (!any_.load(std::memory_order_acquire)) return std::nullopt;
  const std::lock_guard lock(mutex_);
  for (const Failure& failure : failures_) {
    if (failure.context == context || failure.context == 0) return failure;
  }
  return std::nullopt;
}

std::optional<Failure> FailureBoard::first_among(std::uint64_t context, const std::vector<int>& members) const {
  if (!any_.load(std::memory_order_acquire)) return std::nullopt;
  const std::lock_guard lock(mutex_);
  for (const Failure& failure : failures_) {
    const bool member =
        failure.culprit_rank < 0 || std::find(members.begin(), members.end(), failure.culprit_rank) != members.end();
    if (failure.context == context || (failure.context == 0 && member)) return failure;
  }
  return std::nullopt;
}

void FailureBoard::raise(const Failure& failure) {
  const auto calls = callbacks_->lock();
  {
    const std::lock_guard lock(mutex_);
    for (const Failure& known : failures_) {
      if (known.context == failure.context && (known.context != 0 || known.culprit_rank == failure.culprit_rank))
        return;
    }
    failures_.push_back(failure);
  }
  any_.store(true, std::memory_order_release);
  callbacks_->call_all(failure);
}

std::shared_ptr<void> FailureBoard::subscribe(std::function<void(const Failure&)> callback) {
  const auto calls = callbacks_->lock();
  std::vector<Failure> known;
  {
    const std::lock_guard lock(mutex_);
    known = failures_;
  }
  for (const Failure& failure : known) callback(failure);
  return callbacks_->add(std::move(callback));
}

}  // namespace trireme::store
