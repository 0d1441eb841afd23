// The start-up service of mpirun and srun --mpi=pmix: rank 0 publishes one text, all read
// it. libpmix is loaded when it is needed, so a program need not be built for MPI, and may
// be: MPI_Init works before and after. PMIx is let go when the process exits by return or
// exit(); mpirun reports a rank that ends by _exit() as aborted, as it does in MPI.
#pragma once

#include <functional>
#include <string>

#include <trireme/base/status.h>

namespace trireme::store {

struct PmixPlace {
  int rank = 0;
  int size = 0;
  int local_size = 0;  // Ranks on this host.
};

// Calls `publish` on rank 0 alone and returns its text on all ranks; an error of `publish`
// is returned on all ranks. Collective over the job. `place` is filled in first, so that
// publish may use it.
// Errors: unavailable when libpmix cannot be loaded (saying where it was looked for), or
// unsupported when this build was made without PMIx's headers; io_error naming the call.
Result<std::string> pmix_share(PmixPlace& place, const std::function<Result<std::string>()>& publish);

}  // namespace trireme::store
