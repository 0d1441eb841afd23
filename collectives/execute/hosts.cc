#include "collectives/execute/hosts.h"

#include <algorithm>
#include <set>
#include <string>

namespace trireme {

bool is_one_host(const World& world, const std::vector<int>& members) {
  return std::all_of(members.begin(), members.end(), [&](int member) {
    return world.peer(member).host_identity == world.peer(members.front()).host_identity;
  });
}

// How many consecutive ranks share each host, 0 when hosts differ in that.
int even_ranks_per_host(const World& world, const std::vector<int>& members) {
  const auto host = [&](std::size_t rank) -> const std::string& { return world.peer(members[rank]).host_identity; };
  std::size_t per_host = 1;
  while (per_host < members.size() && host(per_host) == host(0)) ++per_host;
  if (members.size() % per_host != 0) return 0;
  std::set<std::string> seen;
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    const std::size_t first = rank - rank % per_host;
    if (host(rank) != host(first)) return 0;
    if (rank == first && !seen.insert(host(rank)).second) return 0;
  }
  return static_cast<int>(per_host);
}

}  // namespace trireme
