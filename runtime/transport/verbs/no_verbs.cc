// The build without VERBS.
#include "runtime/transport/verbs/api/verbs_transport.h"

namespace trireme {

Result<std::unique_ptr<Transport>> create_verbs_transport(const TransportEnvironment&) {
  return unavailable("no RDMA in this build: libibverbs was not found when it was configured (TRIREME_VERBS)");
}

}  // namespace trireme
