#include "runtime/transport/api/peer_watch.h"

namespace trireme {

std::shared_ptr<PeerWatch> PeerWatch::create(std::shared_ptr<World> world, std::function<void()> ring) {
  std::shared_ptr<PeerWatch> watch(new PeerWatch(std::move(world)));
  watch->subscription_ = watch->world_->on_failure([failed = watch->failed_, ring = std::move(ring)](const Failure&) {
    failed->store(true, std::memory_order_release);
    ring();
  });
  return watch;
}

Status PeerWatch::known_failure(int rank) const {
  // Another rank's death is no reason: survivors go on without it.
  const std::optional<Failure> failure = world_->failure_among(0, {rank});
  if (!failure || failure->culprit_rank != rank) return Status::ok();
  if (failure->status.code() == StatusCode::peer_dead) return failure->status;
  return peer_dead(world_->peer(rank).to_string() + " failed: " + failure->status.to_string());
}

Status PeerWatch::closed_by(int rank, std::uint64_t context) const {
  if (const std::optional<Failure> failure = world_->failure()) return failure->status;
  return peer_dead(world_->peer(rank).to_string() + " closed the channel of context " + std::to_string(context) +
                   ": its process ended or it destroyed its communicator; see its log for why");
}

}  // namespace trireme
