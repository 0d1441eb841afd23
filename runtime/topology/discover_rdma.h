// RDMA devices of this host, as libibverbs lists them.
#pragma once

#include <trireme/topology/topology.h>

namespace trireme {

// Adds one vertex per RDMA device below `host`, with port states and link speeds. Adds
// nothing in a build without VERBS or when libibverbs is not installed.
void append_rdma_devices(Topology& topology, int host);

}  // namespace trireme
