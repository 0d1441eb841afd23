// How ranks that srun started without PMIx find each other: from Slurm's variables alone.
// Pure functions. Thread safety: all.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <trireme/base/status.h>

namespace trireme::store {

// "node[01-03,7],login1" → node01 node02 node03 node7 login1. Several brackets in one name
// multiply ("r[1-2]n[1-2]"). Leading zeros give the width.
// Errors: invalid_argument naming the text and the place; lists above 65,536 names too.
Result<std::vector<std::string>> expand_nodelist(std::string_view text);

// The ports that rank 0 tries in turn and the others look at: kPortCandidates from a first
// port in [kFirstPort, kFirstPort + kPortRange) that is derived from `job_id`.
inline constexpr int kFirstPort = 20'000;
inline constexpr int kPortRange = 10'000;
inline constexpr int kPortCandidates = 16;
std::vector<int> candidate_ports(std::string_view job_id);

}  // namespace trireme::store
