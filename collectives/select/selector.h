// Selector: which algorithm a call takes.
//
// The cheapest by the algorithms' own cost formulas on the communicator's network
// figures, unless one is forced. A pure function of values that are equal on all ranks,
// so all ranks choose the same. Thread safety: const after construction.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include <trireme/base/status.h>

#include "collectives/algorithms/algorithm.h"

namespace trireme {

// Per collective, the algorithm that was asked for; nullptr leaves the choice open.
struct ForcedAlgorithms {
  std::array<const plan::Algorithm*, plan::kCollectiveCount> of{};
};

// "", "ring" (wherever it works), or "all_reduce=ring,broadcast=binomial_tree".
// Errors: invalid_argument listing the names, or saying where an algorithm works.
Result<ForcedAlgorithms> parse_forced_algorithms(std::string_view text);

class Selector {
 public:
  Selector() = default;
  Selector(const plan::Network& network, const ForcedAlgorithms& forced) : network_(network), forced_(forced) {}

  // Never null: every collective has an algorithm for any number of ranks.
  const plan::Algorithm* choose(const plan::Request& request) const;
  // One line per candidate with its expected time, and the choice with its reason.
  std::string explain(const plan::Request& request) const;
  const plan::Network& network() const { return network_; }

 private:
  plan::Network network_;
  ForcedAlgorithms forced_;
};

}  // namespace trireme
