// Extents: what a call reads and writes on this rank, in elements.
// Pure.
#pragma once

#include <cstdint>

#include "collectives/execute/operation.h"

namespace trireme {

struct Extents {
  std::uint64_t input = 0;
  std::uint64_t output = 0;
  // In place, the smaller buffer lies this far within the larger one.
  std::uint64_t own = 0;
  bool uses_input = true;
  bool uses_output = true;
};

// `details` may be null; of uneven parts it has one count per rank.
Extents extents_of(const Call& call, const CallDetails* details, int rank, int ranks);

}  // namespace trireme
