// The failures a World knows of, and those who want to hear of them.
// Every subscriber hears of every failure exactly once, whatever the timing.
// Thread safety: all methods.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <trireme/rendezvous/world.h>

#include "runtime/rendezvous/callback_list.h"

namespace trireme::store {

class FailureBoard {
 public:
  // The first failure that concerns `context` or the whole world. One load while none is known.
  std::optional<Failure> first(std::uint64_t context) const;
  // The same, but of the world's failures only those whose culprit is in `members` or nobody.
  std::optional<Failure> first_among(std::uint64_t context, const std::vector<int>& members) const;
  // Records the failure, unless its context has one of the same culprit, and calls the subscribers.
  void raise(const Failure& failure);
  std::shared_ptr<void> subscribe(std::function<void(const Failure&)> callback);

 private:
  using Callbacks = CallbackList<std::function<void(const Failure&)>>;
  const std::shared_ptr<Callbacks> callbacks_ = std::make_shared<Callbacks>();
  std::atomic<bool> any_{false};
  mutable std::mutex mutex_;  // Taken inside the callbacks' lock, never around it.
  std::vector<Failure> failures_;
};

// What the control plane and its owner share.
struct WorldSignals {
  FailureBoard failures;
  std::shared_ptr<CallbackList<std::function<std::string()>>> activity_sources =
      std::make_shared<CallbackList<std::function<std::string()>>>();
};

}  // namespace trireme::store
