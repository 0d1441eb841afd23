// Folding: how algorithms for powers of two serve any number of ranks.
//
// Let Q be the largest power of two that is at most P. Of the first 2 (P - Q) ranks the
// even ones fold their input into their upper neighbour and get the result from it at the
// end; the Q others, numbered anew, are the core.
#pragma once

#include <bit>

namespace trireme::plan {

struct Folding {
  int core;   // Q
  int pairs;  // P - Q: ranks 2i and 2i+1 fold, for i < pairs.
  explicit Folding(int ranks)
      : core(static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)))), pairs(ranks - core) {}
  bool folded(int rank) const { return rank < 2 * pairs; }
  // Hands its input to `rank` + 1 and waits for the result.
  bool idle(int rank) const { return folded(rank) && rank % 2 == 0; }
  int core_rank(int rank) const { return folded(rank) ? rank / 2 : rank - pairs; }
  int rank_of(int core_rank) const { return core_rank < pairs ? 2 * core_rank + 1 : core_rank + pairs; }
};

}  // namespace trireme::plan
