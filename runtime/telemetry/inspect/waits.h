// Who stands still in which call, and for whom: the step from recordings to a verdict.
// Pure values.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/telemetry/api/verdict.h"

namespace trireme {

// One rank's part in one communicator.
struct Part {
  const RankView* rank = nullptr;
  const RecordedCommunicator* communicator = nullptr;
};
// By context, the ranks that have it. Only the newest epoch counts.
using Parts = std::map<std::uint64_t, std::vector<Part>>;
Parts parts_of(const std::vector<RankView>& ranks);

// A collective in which ranks have waited too long, or in which they failed.
struct Stall {
  std::uint64_t context = 0;
  RecordedCall call;            // As one of those inside made it.
  std::vector<int> inside;      // World ranks.
  std::vector<int> absent;      // Members that have not entered it.
  std::vector<int> waited_for;  // Members inside that others wait for, and that wait for nobody.
  std::int64_t since_ns = 0;    // When the first one entered it, before the reading: a duration.
  int size = 0;
};
std::vector<Stall> find_stalls(const Parts& parts, const VerdictOptions& options);

// A message that has waited too long for its other half.
struct LonelyMessage {
  int rank = -1;  // World rank that waits, and for whom.
  int peer = -1;
  std::uint64_t context = 0;
  RecordedCall call;
  std::int64_t since_ns = 0;
};
std::vector<LonelyMessage> find_lonely_messages(const Parts& parts, const VerdictOptions& options);

}  // namespace trireme
