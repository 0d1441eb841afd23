// Which ranks of a plan do the same thing, shifted.
#pragma once

#include <functional>
#include <vector>

#include "collectives/plan/api/network_model.h"
#include "collectives/plan/api/plan.h"

namespace trireme::plan {

// True when `b` is `a` with every peer moved on by b.rank - a.rank, modulo `ranks`: both
// send and receive as many bytes at the same places, but for the one element by which
// parts differ.
bool is_shifted(const Program& a, const Program& b, int ranks);

// The programs of ranks 0 .. s-1 for the least period s of the network at which every
// rank's program is its representative's, shifted; all of them when there is none.
std::vector<Program> representatives(const std::function<Program(int)>& program_of, const NetworkModel& network,
                                     bool use_symmetry);

}  // namespace trireme::plan
