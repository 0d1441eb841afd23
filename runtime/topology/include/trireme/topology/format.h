// Topology for people: the matrix operators know from `nvidia-smi topo -m`, the tree.
// Pure functions.
#pragma once

#include <string>

#include <trireme/topology/topology.h>

namespace trireme {

// The matrix of GPUs, network interfaces, RDMA devices and the job's ranks (NUMA nodes
// when there are fewer than two of these), each with the processors and the NUMA node it
// is near to, and a legend. Ranks show how their pair was measured (SHM, TCP, RDMA).
std::string format_matrix(const Topology& topology);
// The tree, one line a vertex, indented.
std::string format_tree(const Topology& topology);

}  // namespace trireme
