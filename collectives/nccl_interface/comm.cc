#include "collectives/nccl_interface/comm.h"

#include <atomic>

#include <fmt/core.h>

namespace trireme::nccl {
namespace {

// An operator's value is 5 + serial of its communicator * 4096 + its number there, so that
// one of another communicator is noticed. Serials come again after 2^18 communicators.
constexpr int kOperatorsPerComm = 4096;
constexpr int kSerials = 1 << 18;

int next_serial() {
  static std::atomic<unsigned> next{0};
  return static_cast<int>(next.fetch_add(1, std::memory_order_relaxed) % kSerials);
}

}  // namespace

Comm::Comm(int rank, int size, Settings settings, Place place)
    : rank_(rank), size_(size), settings_(std::move(settings)), place_(place), serial_(next_serial()) {}

void Comm::become(Result<std::shared_ptr<Communicator>> made) {
  const std::lock_guard lock(mutex_);
  if (state_ != State::starting) return;  // Aborted meanwhile; what was made is dropped.
  if (made.is_ok()) {
    rank_ = made.value()->rank();
    size_ = made.value()->size();
    communicator_ = std::move(made).value();
    state_ = State::ready;
    return;
  }
  failure_ = made.status();
  state_ = State::failed;
}

Outcome Comm::usable_locked(std::shared_ptr<Communicator>& communicator, bool broken_too) const {
  switch (state_) {
    case State::starting:
      return bad_usage(
          "the communicator is still being made: end the group, or ask ncclCommGetAsyncError until it no longer says "
          "ncclInProgress");
    case State::failed:
      return failure_;
    case State::finalized:
      return bad_usage("the communicator was finalized: only ncclCommDestroy and ncclCommAbort may follow");
    case State::aborted:
      return bad_usage("the communicator was aborted");
    case State::revoked:
      if (broken_too) break;
      return bad_usage("the communicator was revoked: it may be shrunk, aborted or destroyed, but not used");
    case State::ready:
      break;
  }
  if (busy_) {
    return bad_usage(
        "the previous call on this non-blocking communicator still runs: ask ncclCommGetAsyncError until it no longer "
        "says ncclInProgress");
  }
  communicator = communicator_;
  return {};
}

Outcome Comm::usable(std::shared_ptr<Communicator>& communicator) const {
  const std::lock_guard lock(mutex_);
  return usable_locked(communicator, false);
}

Outcome Comm::parent(std::shared_ptr<Communicator>& communicator) const {
  const std::lock_guard lock(mutex_);
  return usable_locked(communicator, true);
}

void Comm::begin_background() {
  const std::lock_guard lock(mutex_);
  busy_ = true;
  background_ = {};
}

void Comm::end_background(const Outcome& outcome) {
  const std::lock_guard lock(mutex_);
  busy_ = false;
  background_ = outcome;
}

Outcome Comm::state() const {
  const std::lock_guard lock(mutex_);
  if (busy_ || state_ == State::starting) return in_progress();
  if (state_ == State::failed) return failure_;
  if (!background_.is_ok()) return background_;
  if (communicator_ == nullptr || state_ == State::revoked) return {};
  return communicator_->status();
}

Outcome Comm::finalize() {
  const std::lock_guard lock(mutex_);
  if (state_ == State::revoked) {
    return bad_usage("ncclCommFinalize after ncclCommRevoke: destroy or shrink the communicator instead");
  }
  std::shared_ptr<Communicator> communicator;
  const Outcome usable = usable_locked(communicator, false);
  // All calls have finished when they returned: there is nothing to flush.
  if (usable.is_ok()) state_ = State::finalized;
  return usable;
}

Outcome Comm::revoke() {
  const std::lock_guard lock(mutex_);
  if (state_ != State::ready) {
    std::shared_ptr<Communicator> communicator;
    return state_ == State::revoked ? bad_usage("the communicator is revoked already")
                                    : usable_locked(communicator, false);
  }
  state_ = State::revoked;
  communicator_->abort(fmt::format("rank {} revoked it (ncclCommRevoke)", rank_));
  return {};
}

void Comm::abort(const std::string& reason) {
  std::shared_ptr<Communicator> communicator;
  {
    const std::lock_guard lock(mutex_);
    state_ = State::aborted;
    communicator = communicator_;
  }
  if (communicator != nullptr) communicator->abort(reason);
}

Outcome Comm::add_operator(const ScaledSum& sum, int& handle) {
  const std::lock_guard lock(mutex_);
  std::size_t number = 0;
  while (number < operators_.size() && operators_[number].has_value()) ++number;
  if (number == kOperatorsPerComm) {
    return bad_usage(fmt::format("{} operators exist: destroy those not needed", kOperatorsPerComm));
  }
  if (number == operators_.size()) operators_.emplace_back();
  operators_[number] = sum;
  handle = kNamedOpCount + serial_ * kOperatorsPerComm + static_cast<int>(number);
  return {};
}

Outcome Comm::find_operator(int handle, ScaledSum& sum) const {
  const std::lock_guard lock(mutex_);
  const int place = handle - kNamedOpCount;
  if (place < 0 || place / kOperatorsPerComm != serial_) {
    return bad_argument(fmt::format("the reduction operator {} was not made with this communicator", handle));
  }
  const auto number = static_cast<std::size_t>(place % kOperatorsPerComm);
  if (number >= operators_.size() || !operators_[number].has_value()) {
    return bad_argument(fmt::format("the reduction operator {} does not exist (was it destroyed?)", handle));
  }
  sum = *operators_[number];
  return {};
}

Outcome Comm::remove_operator(int handle) {
  if (handle >= 0 && handle < kNamedOpCount) return bad_argument("a built-in reduction operator cannot be destroyed");
  ScaledSum sum;
  const Outcome found = find_operator(handle, sum);
  if (!found.is_ok()) return found;
  const std::lock_guard lock(mutex_);
  operators_[static_cast<std::size_t>((handle - kNamedOpCount) % kOperatorsPerComm)].reset();
  return {};
}

}  // namespace trireme::nccl
