// A reproducible sum: two collectives of integers instead of one of floating-point
// numbers (fixed_point.h): the largest exponent of every element, then the sum of the
// fixed-point numbers.
//
// Price: f32 moves 9 bytes an element instead of 4, f64 20 instead of 8, low-precision
// types 9, and both ends convert (docs/algorithms.md has measured times).
// Thread safety: as Staging.
#pragma once

#include <memory>
#include <utility>

#include "collectives/execute/operation.h"

namespace trireme {

// Whether the call is a sum whose bits would depend on the order of its operands.
bool is_order_dependent(const Call& call);

// What runs first and what runs second, each with its staging; the second's result is the
// call's. REQUIRES: the call is valid and is_order_dependent; its buffers outlive both.
// A scaled sum's factor is applied on the way.
std::pair<std::unique_ptr<CallDetails>, std::unique_ptr<CallDetails>> stage_reproducible(
    const Call& call, const CallDetails* details, const void* input, void* output, int rank, int ranks);

}  // namespace trireme
