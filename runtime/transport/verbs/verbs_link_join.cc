// How a link comes to be: its queue pairs are made when the channel is opened, and joined
// to the peer's when that is known.
#include <utility>

#include "runtime/transport/verbs/verbs_link.h"
#include "runtime/transport/verbs/verbs_mailbox.h"
#include "runtime/transport/verbs/verbs_queue_pair.h"

namespace trireme {

Status VerbsLink::set_up() {
  const std::lock_guard lock(mutex_);
  for (Rail& rail : rails_) TRIREME_RETURN_IF_ERROR(make_pair(rail));
  return Status::ok();
}

Status VerbsLink::make_pair(Rail& rail) {
  constexpr int kDepth = kVerbsFragmentsPerRail + kVerbsControlMessages;
  TRIREME_ASSIGN_OR_RETURN(rail.queue, rail.end.device->create_queue(2 * kDepth, weak_from_this()));
  TRIREME_ASSIGN_OR_RETURN(rail.pair, create_queue_pair(*rail.end.device, rail.end.own.port, rail.queue, kDepth));
  rail.first_packet = random_packet_number();
  for (int i = 0; i < kDepth; ++i) post_receive(rail);
  return Status::ok();
}

void VerbsLink::describe(VerbsHello& hello) const {
  hello.ring_address = reinterpret_cast<std::uint64_t>(receive_ring());
  hello.ring_bytes = options_.ring_bytes;
  for (const Rail& rail : rails_) {
    hello.rails.push_back({rail.pair->qp_num, rail.first_packet, options_.block->region(*rail.end.device).rkey});
  }
}

Status VerbsLink::connect(const VerbsHello& peer) {
  std::function<void()> finished;
  {
    const std::lock_guard lock(mutex_);
    if (joined_) return Status::ok();
    Status status = peer.rails.size() == rails_.size()
                        ? Status::ok()
                        : mismatch(options_.peer +
                                   " offers another number of RDMA rails than we: the devices of one of "
                                   "the hosts have changed since the start");
    for (std::size_t i = 0; i < rails_.size() && status.is_ok(); ++i) status = join(rails_[i], peer.rails[i]);
    if (!status.is_ok()) {
      break_with(status);
      return status;
    }
    peer_ring_address_ = peer.ring_address;
    peer_ring_bytes_ = peer.ring_bytes;
    joined_ = true;
    arm();
    if (options_.first_to_speak) {
      // The peer's queue pairs are ready, or we would have no answer; ours have to be announced.
      for (std::size_t i = 0; i < rails_.size(); ++i) post_control(i, VerbsMessageKind::ready, 0);
      connected_ = true;
      send_.connect(peer_ring_bytes_);
      push();
    }
    finished = try_finish();
  }
  options_.ring_doorbell();
  if (finished) finished();
  return Status::ok();
}

Status VerbsLink::join(Rail& rail, const VerbsHello::Rail& peer) {
  rail.peer_ring_key = peer.ring_key;
  const ibv_ah_attr route = verbs_route(rail.end.own, rail.end.own_gid, rail.end.peer, rail.end.peer_gid);
  Status status = join_queue_pair(*rail.end.device, rail.pair,
                                  {.route = route,
                                   .mtu = rail.end.mtu,
                                   .peer = peer.queue_pair,
                                   .first_packet = rail.first_packet,
                                   .peer_first_packet = peer.first_packet});
  return status.with_context("joining " + options_.peer + " over " + rail.end.own.name());
}

}  // namespace trireme
