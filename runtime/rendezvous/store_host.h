// Rank 0 hosts the store when no launcher of ours does.
#pragma once

#include <memory>
#include <string>

#include <trireme/base/status.h>

#include "runtime/rendezvous/api/store_server.h"
#include "runtime/rendezvous/bootstrap.h"

namespace trireme::store {

// Under PMIx, torchrun and Slurm: starts the store on rank 0 and completes `bootstrap`
// (PMIx says the size and where rank 0 listens) and `secret` (PMIx carries a random one;
// srun and torchrun offer no channel for one). Returns null on other ranks, and when a
// launcher hosts the store.
// Errors: unavailable or io_error of PMIx; why rank 0 could not listen.
Result<std::unique_ptr<StoreServer>> host_store(Bootstrap& bootstrap, std::string& secret);

}  // namespace trireme::store
