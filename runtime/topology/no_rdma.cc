// The build without VERBS: no RDMA device is listed.
#include "runtime/topology/discover_rdma.h"

namespace trireme {

void append_rdma_devices(Topology&, int) {}

}  // namespace trireme
