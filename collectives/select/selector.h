// Selector: which algorithm a call takes.
//
// The fastest by what was measured on this kind of machine (tuning.h), by the algorithms'
// own cost formulas on the communicator's network figures where nothing was, unless one
// is forced. A pure function of values that are equal on all ranks, so all ranks choose
// the same. Callers keep the choice with the plan. Thread safety: const after construction.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include <trireme/base/status.h>

#include "collectives/algorithms/algorithm.h"
#include "collectives/select/tuning.h"

namespace trireme {

// Per collective, the algorithm that was asked for; nullptr leaves the choice open.
struct ForcedAlgorithms {
  std::array<const plan::Algorithm*, plan::kCollectiveCount> of{};
};

// "", "ring" (wherever it works), or "all_reduce=ring,broadcast=binomial_tree"; a colon
// does as well as the equals sign.
// Errors: invalid_argument listing the names, or saying where an algorithm works.
Result<ForcedAlgorithms> parse_forced_algorithms(std::string_view text);

class Selector {
 public:
  Selector() = default;
  // `table` may be null: then the formulas decide.
  Selector(const plan::Network& network, const ForcedAlgorithms& forced,
           std::shared_ptr<const TuningTable> table = nullptr)
      : network_(network), forced_(forced), table_(std::move(table)) {}

  // Never null: every collective has an algorithm for any number of ranks.
  const plan::Algorithm* choose(const plan::Request& request) const;
  // One line per candidate with its expected time, and the choice with its reason.
  std::string explain(const plan::Request& request) const;
  // explain() into the log, topic "tune".
  void log_choice(const plan::Request& request) const;
  const plan::Network& network() const { return network_; }

 private:
  struct Expectation {
    double seconds = 0;
    bool measured = false;
  };
  Expectation expect(const plan::Algorithm& algorithm, const plan::Request& request) const;
  // Measured times and formulas are not compared with each other: formulas err by more
  // than algorithms differ. They decide only where no candidate was measured.
  bool any_measured(const plan::Request& request) const;
  plan::Network network_;
  ForcedAlgorithms forced_;
  std::shared_ptr<const TuningTable> table_;
};

}  // namespace trireme
