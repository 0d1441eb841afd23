// Comm: what an ncclComm_t stands for: a communicator, its settings and its state.
//
// It is `starting` until ncclCommInit*, ncclCommSplit or ncclCommShrink has made its
// communicator, then `ready`. `busy` while a non-blocking call runs in the background;
// `finalized` or `revoked` when the program said so; `failed` when it could not be made.
// A failure of the communicator itself is asked of the communicator.
// Thread safety: all methods. As with NCCL, calls on one communicator come from one
// thread at a time, but for abort() and the questions.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <trireme/collectives/communicator.h>

#include "collectives/nccl_interface/accelerator.h"
#include "collectives/nccl_interface/config.h"
#include "collectives/nccl_interface/outcome.h"

namespace trireme::nccl {

// An operator made by ncclRedOpCreatePreMulSum.
struct ScaledSum {
  DataType type = DataType::f32;
  double factor = 1;
  const void* scalar = nullptr;  // Read when a collective runs; null: `factor` is known.
};

class Comm {
 public:
  // A rank of -1: it is known once the communicator is made.
  Comm(int rank, int size, Settings settings, Place place);

  int rank() const { return rank_.load(std::memory_order_relaxed); }
  int size() const { return size_.load(std::memory_order_relaxed); }
  const Place& place() const { return place_; }
  const Settings& settings() const { return settings_; }

  // The result of making it. A failure is kept and told by every later call.
  void become(Result<std::shared_ptr<Communicator>> made);
  // The communicator, when a call may use it now. Errors: invalid_usage saying why not;
  // what made it fail.
  Outcome usable(std::shared_ptr<Communicator>& communicator) const;
  // The same, also when revoked or broken: what shrink may start from.
  Outcome parent(std::shared_ptr<Communicator>& communicator) const;

  // Around every use of the communicator: false when another thread is inside.
  bool enter() { return !inside_.exchange(true, std::memory_order_acquire); }
  void leave() { inside_.store(false, std::memory_order_release); }
  // Around what runs in the background: ncclCommGetAsyncError says in_progress meanwhile.
  void begin_background();
  void end_background(const Outcome& outcome);
  // What ncclCommGetAsyncError tells.
  Outcome state() const;

  Outcome finalize();
  Outcome revoke();
  // Breaks it for all its members; from any thread, never waits for a peer.
  void abort(const std::string& reason);

  // Operators of this communicator, as values of ncclRedOp_t from ncclNumOps on. One
  // used with a communicator that did not make it is refused.
  Outcome add_operator(const ScaledSum& sum, int& handle);
  Outcome remove_operator(int handle);
  Outcome find_operator(int handle, ScaledSum& sum) const;

 private:
  enum class State { starting, ready, failed, finalized, revoked, aborted };
  Outcome usable_locked(std::shared_ptr<Communicator>& communicator, bool broken_too) const;

  std::atomic<int> rank_;
  std::atomic<int> size_;
  const Settings settings_;
  const Place place_;
  const int serial_;
  mutable std::mutex mutex_;
  State state_ = State::starting;
  std::atomic<bool> inside_{false};
  bool busy_ = false;
  Outcome failure_;     // Why it failed to be made.
  Outcome background_;  // What the last background work came to.
  std::shared_ptr<Communicator> communicator_;
  std::vector<std::optional<ScaledSum>> operators_;
};

}  // namespace trireme::nccl
