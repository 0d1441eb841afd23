// The graph of a whole job: every host's own, joined at the networks they share, with a
// vertex for each rank. Pure function.
#pragma once

#include <string>
#include <vector>

#include <trireme/base/status.h>
#include <trireme/topology/topology.h>

namespace trireme {

struct JobRank {
  std::string host;           // For people.
  std::string host_identity;  // Ranks of equal identity share a host.
  Topology topology;          // Of its host; only that of a host's first rank is used.
};

// Rank r is the vertex of kind rank whose os_index is r, below its host's only NUMA node
// or its host. Switches of equal name are one. Errors: invalid_argument naming the rank
// whose topology has not exactly one host.
Result<Topology> join_topologies(const std::vector<JobRank>& ranks);

}  // namespace trireme
