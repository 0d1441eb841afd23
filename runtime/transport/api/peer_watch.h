// PeerWatch: what the World knows about the death of peers, cheap enough to ask on
// every attempt (one load while nobody has died).
// Thread safety: all methods.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include <trireme/base/status.h>
#include <trireme/rendezvous/world.h>

namespace trireme {

class PeerWatch {
 public:
  // `ring` is called, on the World's service thread, whenever a failure becomes known.
  static std::shared_ptr<PeerWatch> create(std::shared_ptr<World> world, std::function<void()> ring);

  // peer_dead, in the World's words, when `rank` is the culprit of the known failure.
  Status status(int rank) const {
    return failed_->load(std::memory_order_acquire) ? known_failure(rank) : Status::ok();
  }
  // The Status for a connection that `rank` closed: the known failure if there is one
  // (a rank that ends because another one died is not the culprit), else peer_dead.
  Status closed_by(int rank, std::uint64_t context) const;

 private:
  explicit PeerWatch(std::shared_ptr<World> world) : world_(std::move(world)) {}
  Status known_failure(int rank) const;

  std::shared_ptr<World> world_;
  std::shared_ptr<std::atomic<bool>> failed_ = std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<void> subscription_;
};

}  // namespace trireme
