// check_plan: a proof by symbolic execution.
//
// Runs the programs of all ranks over channels without any buffering (a send completes
// together with its receive) and tracks, for every chunk of every buffer, which ranks'
// contributions it holds and by which expression they were combined. Accepts only when
//  - every rank ends (no deadlock without a single byte of buffering),
//  - every output chunk holds exactly one contribution of each rank that owes one, of
//    the right place in the input, finished exactly once,
//  - all ranks combine each chunk by the same expression, hence get the same bits,
//  - nothing is read before it is written, or overwritten within the round that reads it,
//  - lengths and representations agree on both ends, all references are in bounds,
//    and, in a wide plan, no unfinished partial result is stored as an element,
//  - for a barrier: every rank's end follows every rank's beginning.
// `in_place` runs with input and output overlaid as the Communicator permits.
// Pure. Cost: time and memory in proportion to ranks x operations executed.
#pragma once

#include <trireme/base/status.h>

#include "collectives/plan/api/plan.h"

namespace trireme::plan {

// Errors: invalid_argument naming rank, loop, iteration, round and operation.
Status check_plan(const Plan& plan, bool in_place);

}  // namespace trireme::plan
