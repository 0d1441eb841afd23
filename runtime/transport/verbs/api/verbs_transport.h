// The verbs transport: RDMA through libibverbs (InfiniBand, RoCE), in builds with VERBS
// on machines with a device; elsewhere it says why not.
//
// Every channel has a ring at the receiver, registered once and used again by later
// channels, into which the sender's device writes (WRITE with immediate); credits come
// back as small messages. Several devices carry one channel side by side. Ranks meet by
// datagrams over the devices themselves, so nothing but RDMA has to connect them.
//
// TRIREME_VERBS_DEVICES restricts the devices ("mlx5_0,mlx5_1:1", or "!mlx5_2"), and
// TRIREME_VERBS_RAILS (4) is the most that one channel uses.
#pragma once

#include "runtime/transport/api/transport.h"

namespace trireme {

// Errors: unavailable when the build has no verbs or the machine no usable device,
// saying which and, where memory could not be registered, what `ulimit -l` has to be.
Result<std::unique_ptr<Transport>> create_verbs_transport(const TransportEnvironment& environment);

}  // namespace trireme
