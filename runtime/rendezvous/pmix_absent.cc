#include "runtime/rendezvous/pmix_exchange.h"

namespace trireme::store {

Result<std::string> pmix_share(PmixPlace&, const std::function<Result<std::string>()>&) {
  return unsupported(
      "PMIX_NAMESPACE is set, so mpirun or srun started this program, but this build of Trireme was made without PMIx: "
      "install libpmix-dev and build again, or start the program by `trireme run`");
}

}  // namespace trireme::store
