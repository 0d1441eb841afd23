// Who started us, and therefore which rank we are and where the store is.
//
// The first of these that is there decides: the caller's options and TRIREME_* (trireme
// run), PMIx (mpirun; srun --mpi=pmix), RANK/WORLD_SIZE/MASTER_ADDR/MASTER_PORT (torchrun
// and its like), Slurm's variables (srun without PMIx), nobody (one rank, alone). Inner
// launchers come first, since they run inside outer ones and inherit their variables.
// Variables that contradict each other are an error that names both.
// Thread safety: all functions; find_bootstrap is a pure function of its arguments.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <trireme/base/status.h>
#include <trireme/platform/clock.h>
#include <trireme/rendezvous/world.h>

namespace trireme::store {

struct Bootstrap {
  enum class Source { standalone, trireme, pmix, torchrun, slurm };
  Source source = Source::standalone;
  int rank = 0;
  int size = 1;  // Under PMIx -1 when no variable says it: PMIx will.
  std::int64_t epoch = 1;
  std::string job_id;
  std::vector<std::string> store_addresses;   // Where to look, in turn. Under PMIx empty.
  std::vector<std::string> listen_addresses;  // Where rank 0 hosts the store, the first that is free.
  std::string store_node;  // Slurm's name of the node in store_addresses: perhaps no host name (slurm_node.h).
};
std::string_view to_string(Bootstrap::Source source);

using EnvironmentLookup = std::function<std::optional<std::string>(std::string_view name)>;
Result<Bootstrap> find_bootstrap(const WorldOptions& options, const EnvironmentLookup& environment);

// Replaces the name of store_node in the store's addresses where only Slurm can say what
// it stands for. Not pure: resolves names, may run scontrol.
Status locate_store_node(Bootstrap& bootstrap, Deadline deadline);

// The options' secret, or the contents of the descriptor that TRIREME_SECRET_FD names,
// read from its beginning without moving it, or TRIREME_SECRET, or "".
Result<std::string> find_secret(const WorldOptions& options, const EnvironmentLookup& environment);

}  // namespace trireme::store
