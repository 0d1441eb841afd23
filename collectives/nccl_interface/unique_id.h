// Unique ids: where ranks that share 128 bytes meet, and the stores they meet at.
//
// ncclGetUniqueId starts a store in the calling process, on one thread of its own, and
// writes its addresses, a job id and a fresh secret into the id; whoever knows the id may
// join once per rank. The size of the world is what the first rank says. The process
// that made the id need not be a rank (a launcher that forks, rank 0 under mpirun), but
// must live until all ranks have joined. When it exits in order, it waits a while for
// the ranks to leave; ranks that still run then lose the store, not the collectives.
// A forked child never touches its parent's stores.
// Thread safety: all functions.
#pragma once

#include <string>

#include <trireme/rendezvous/world.h>

#include "collectives/nccl_interface/outcome.h"

namespace trireme::nccl {

// Where a rank meets the others.
struct Meeting {
  std::string addresses;  // As WorldOptions::store_address.
  std::string job_id;
  std::string secret;
};

// Errors: what StoreServer::start returns, e.g. no descriptor left.
Outcome make_unique_id(UniqueId& id);
// Errors: invalid_argument when the bytes were not made by make_unique_id.
Outcome decode_unique_id(const UniqueId& id, Meeting& meeting);
// Joins the ranks of `meeting`; waits for all of them. One rank needs no store.
Result<std::shared_ptr<World>> join(const Meeting& meeting, int ranks, int rank);

// Ends this process's stores that all their ranks have left. Called when a communicator
// ends and before a new store begins, so that their number stays constant.
void reap_stores();
// At exit: waits for the ranks of this process's stores to leave, then ends them.
void close_stores();

}  // namespace trireme::nccl
