// Counter-based random numbers: Philox4x32-10.
//
// A pure function of (key, counter), so that any element of any random tensor can be
// drawn by any rank in any order and comes out the same. The key says what the number
// is for, the counter says which one it is.
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011; tested against the known-answer vectors of its Random123 library.
#pragma once

#include <array>
#include <cstdint>

namespace trireme {

struct PhiloxKey {
  std::uint32_t word[2] = {0, 0};
};

// The ten-round block function.
std::array<std::uint32_t, 4> philox4x32(PhiloxKey key, std::array<std::uint32_t, 4> counter);

// The key for one stream of numbers. `purpose` is a small constant per kind of use
// (initialisation, dropout, sampling, shuffling); `layer` a global layer or parameter id.
PhiloxKey make_philox_key(std::uint64_t seed, std::uint32_t purpose, std::uint32_t layer);

// Uniform in [0, 1) with 24 bits, for element `element` of ordinal `ordinal` (for
// example a global sample number).
float philox_uniform(PhiloxKey key, std::uint64_t ordinal, std::uint64_t element);
// Standard normal (Box-Muller in double precision, host only).
float philox_normal(PhiloxKey key, std::uint64_t ordinal, std::uint64_t element);
// Uniform integer in [0, bound), unbiased for bounds below 2^32 to within 2^-32.
// REQUIRES: bound > 0.
std::uint64_t philox_below(PhiloxKey key, std::uint64_t ordinal, std::uint64_t element, std::uint64_t bound);

}  // namespace trireme
