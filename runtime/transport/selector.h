// The selector: which transport carries a pair of ranks, as a pure function of values
// that both ends know, so that both ends decide alike.
#pragma once

#include <string_view>
#include <vector>

#include "runtime/transport/api/fabric.h"

namespace trireme {

// Picks, of the possible candidates, the one with the highest bytes_per_second, then the
// lowest latency, then the earliest in the list. `forced`, unless empty, leaves only the
// candidate of that name. When none remains, transport is "" and reason says why.
PathChoice choose_path(std::vector<PathChoice::Candidate> candidates, std::string_view forced);

}  // namespace trireme
