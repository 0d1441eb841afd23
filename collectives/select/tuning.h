// The tuning table: what `trireme tune` measured on a machine, for the choice of algorithms.
//
// One file per kind of machine: $TRIREME_TUNING, else tuning-IDENTITY.json in
// $XDG_CACHE_HOME/trireme (or ~/.cache/trireme). A file that is damaged, of another
// version or of another machine is not used, and the log says so. The rank that creates
// a communicator uses rank 0's table, as all ranks do (engine.h).
// Thread safety: values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <trireme/base/status.h>

#include "collectives/algorithms/algorithm.h"

namespace trireme {

struct TunedTime {
  plan::Collective collective = plan::Collective::all_reduce;
  std::string algorithm;
  std::int64_t bytes = 0;  // Of the larger buffer of a rank.
  double seconds = 0;      // Median of a call on the slowest rank.
  bool operator==(const TunedTime&) const = default;
};

struct TuningTable {
  std::string machine;           // machine_identity() of where it was measured.
  std::string algorithms;        // algorithm_names() of the build that measured.
  int ranks = 0;                 // Of one host; times hold for this many.
  plan::Network network;         // Measured between two of them.
  std::vector<TunedTime> times;  // By collective, then algorithm, then bytes, ascending.

  // Seconds of the call by its measured neighbours in size: between two of them along the
  // line through both on logarithmic axes, beyond the largest at its bandwidth, below the
  // smallest its time. nullopt when this was not measured (other ranks, a wide type).
  std::optional<double> seconds(const plan::Algorithm& algorithm, const plan::Request& request) const;
};

std::string tuning_to_json(const TuningTable& table);
// Errors: invalid_argument naming what is wrong; figures must be finite and positive.
Result<TuningTable> tuning_from_json(std::string_view text);

// Equal on machines that take equal times: processor, cores, as 16 hexadecimal digits.
std::string machine_identity();
// The names in the table of algorithms, commas between: with others, times say nothing
// about which is the fastest.
std::string algorithm_names();
// Where this machine's table is (or would be). Errors: not_found when no folder is known.
Result<std::string> tuning_path();
// The text of this machine's table as it is in the file; "" when there is none to use,
// after a line in the log when there is one that cannot be used.
std::string load_tuning();

}  // namespace trireme
