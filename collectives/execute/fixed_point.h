// Fixed point: sums of floating-point numbers that do not depend on their order.
//
// Each element's largest exponent over all ranks fixes a scale for that element; every
// contribution becomes a whole number at that scale and whole numbers add up exactly in
// any order. f32 (and what widens to it) takes one 64-bit number, f64 two. With n ranks
// nothing is lost of a contribution down to 2^-(38 - log2 n) of the largest (f64:
// 2^-(57 - log2 n)); what lies below is rounded to nearest even, the same on every rank
// layout. NaN and infinities are counted, so their sum is what IEEE 754 says. A sum that
// is zero is +0.
// The idea is that of pre-rounded sums: Demmel, Nguyen, "Fast reproducible floating-point
// summation", 2013.
// Pure functions of their arguments. REQUIRES: ranks below 2^15.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trireme::fixed_point {

// 0 for zero, the biased exponent otherwise (1 for subnormals), the largest for what is
// not finite: the largest of several is that of the largest number.
void exponents(std::uint8_t* out, const float* in, std::size_t count);
void exponents(std::int32_t* out, const double* in, std::size_t count);

// One number per f32, two per f64 (high part first), at the scale of `largest`.
void encode(std::int64_t* out, const float* in, const std::uint8_t* largest, std::size_t count, int ranks);
void encode(std::int64_t* out, const double* in, const std::int32_t* largest, std::size_t count, int ranks);

// The sum of encoded numbers of `ranks` ranks, rounded once to f32 or f64.
void decode(float* out, const std::int64_t* in, const std::uint8_t* largest, std::size_t count, int ranks);
void decode(double* out, const std::int64_t* in, const std::int32_t* largest, std::size_t count, int ranks);

}  // namespace trireme::fixed_point
