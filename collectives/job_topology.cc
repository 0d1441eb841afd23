#include "collectives/api/job_topology.h"

#include <trireme/topology/discover.h>
#include <trireme/topology/job.h>

namespace trireme {

Result<Topology> exchange_topology(World& world, std::string_view name, Deadline deadline) {
  std::string own;
  if (world.local_rank() == 0) {
    const Result<Topology> found = discover_host();
    own = found.is_ok() ? topology_to_json(*found) : "!" + found.status().message();
  }
  std::vector<int> members;
  for (int rank = 0; rank < world.size(); ++rank) members.push_back(rank);
  TRIREME_ASSIGN_OR_RETURN(const std::vector<std::string> texts, world.exchange(name, members, own, deadline));
  std::vector<JobRank> ranks;
  for (int rank = 0; rank < world.size(); ++rank) {
    const PeerInfo& peer = world.peer(rank);
    const std::string& text = texts[static_cast<std::size_t>(rank)];
    JobRank job_rank{peer.host, peer.host_identity, {}};
    if (!text.empty() && text[0] == '!') return unavailable(peer.to_string() + ": " + text.substr(1));
    if (!text.empty()) {
      Result<Topology> topology = topology_from_json(text);
      if (!topology.is_ok()) return topology.status().with_context(peer.to_string());
      job_rank.topology = std::move(topology).value();
    }
    ranks.push_back(std::move(job_rank));
  }
  return join_topologies(ranks);
}

}  // namespace trireme
