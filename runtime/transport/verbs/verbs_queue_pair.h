// Making and joining reliable queue pairs.
// Thread safety: free functions.
#pragma once

#include "runtime/transport/verbs/verbs_device.h"

namespace trireme {

// `depth` requests in each direction, all completing in `queue`; in state INIT, so that
// receives can be posted. Errors: resource_exhausted and what the device says.
Result<ibv_qp*> create_queue_pair(const VerbsDevice& device, std::uint8_t port, ibv_cq* queue, int depth);

struct QueuePairJoin {
  ibv_ah_attr route{};
  std::uint8_t mtu = 0;
  std::uint32_t peer = 0;  // Its queue pair's number.
  std::uint32_t first_packet = 0;
  std::uint32_t peer_first_packet = 0;
};
// Ready to receive and to send. A packet that is not acknowledged is sent again after
// about a second, seven times, before the peer counts as unreachable.
Status join_queue_pair(const VerbsDevice& device, ibv_qp* pair, const QueuePairJoin& join);

// A first packet number nobody can guess, so that late packets of an earlier queue pair
// are not taken for ours.
std::uint32_t random_packet_number();

}  // namespace trireme
