// The topology of a running job: every host looks at itself, and all ranks get the whole.
// Thread safety: as World.
#pragma once

#include <trireme/base/status.h>
#include <trireme/platform/clock.h>
#include <trireme/rendezvous/world.h>
#include <trireme/topology/topology.h>

namespace trireme {

// Collective over the world; `name` is unique per exchange. The first rank of each host
// discovers it. Errors: deadline_exceeded naming who has not come; what discovery says,
// with the rank it happened to, in all ranks.
Result<Topology> exchange_topology(World& world, std::string_view name, Deadline deadline);

}  // namespace trireme
