// A sum of contributions that each rank scales first, run as a plain sum of scaled copies.
//
// Low-precision elements are scaled into f32 and summed as f32, so that the only rounding
// is the last one; the copy then takes two or four times the input's bytes.
// Thread safety: pure functions; the staging as Staging says.
#pragma once

#include <cstddef>
#include <memory>

#include "collectives/execute/operation.h"

namespace trireme {

// out[i] = factor * in[i], rounded once; integers wrap. `out` may be `in`.
void scale_elements(void* out, const void* in, std::size_t count, DataType type, double factor);

// REQUIRES: the call is valid, a scaled sum, and outlived by its buffers.
std::unique_ptr<Staging> stage_scaled_sum(const Call& call, const CallDetails& details, const void* input, void* output,
                                          int rank, int ranks);

}  // namespace trireme
