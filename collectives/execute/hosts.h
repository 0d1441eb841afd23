// How the members of a communicator lie on hosts, from what every rank knows of all.
// Pure.
#pragma once

#include <vector>

#include <trireme/rendezvous/world.h>

namespace trireme {

// `members` are world ranks. REQUIRES: not empty.
bool is_one_host(const World& world, const std::vector<int>& members);
// How many consecutive members share each host; 0 when hosts differ in that.
int even_ranks_per_host(const World& world, const std::vector<int>& members);

}  // namespace trireme
