// exp and erf on vectors.
// Compiled once per instruction set; see small_float.h.
#pragma once

#include "kernels/cpu/simd/vector.h"

namespace trireme::kernels {
namespace {

// exp(x) by x = n ln 2 + r, |r| <= ln 2 / 2: a polynomial for exp(r), 2^n through the
// exponent's bits. Within 2 units in the last place (tested against f64). Results below
// the smallest normal number are 0, above the largest infinity; NaN stays NaN.
// Polynomial and split of ln 2: Moshier, Cephes, expf.
inline Vec exponential(Vec x) {
  constexpr float kLargest = 88.72283f, kSmallest = -87.33654f;
  const Vec clamped = min(max(x, splat(kSmallest)), splat(kLargest));
  constexpr float kRound = 0x1.8p23f;  // Adding it leaves the nearest integer in the low bits.
  const Vec shifted = mul_add(clamped, splat(1.44269504088896341f), splat(kRound));
  const Vec n = shifted - kRound;
  Vec r = mul_add(n, splat(-0.693359375f), clamped);
  r = mul_add(n, splat(2.12194440e-4f), r);
  Vec p = splat(1.9875691500e-4f);
  p = mul_add(p, r, splat(1.3981999507e-3f));
  p = mul_add(p, r, splat(8.3334519073e-3f));
  p = mul_add(p, r, splat(4.1665795894e-2f));
  p = mul_add(p, r, splat(1.6666665459e-1f));
  p = mul_add(p, r, splat(5.0000001201e-1f));
  p = mul_add(p, r * r, r) + 1.0f;
  // 2^n in two steps, since n reaches 128.
  const IVec integer = bits(shifted) - bits(splat(kRound));
  const IVec half = integer >> 1;
  const Vec result = p * from_bits((half + 127) << 23) * from_bits((integer - half + 127) << 23);
  const Vec large = x > kLargest ? splat(__builtin_inff()) : result;
  const Vec bounded = x < kSmallest ? splat(0.0f) : large;
  return x != x ? x : bounded;
}

// erf(x) as x P(x^2) / Q(x^2) on [-4, 4], beyond which f32 erf is +-1. Absolute error
// below 5e-7 (tested against f64). Coefficients: Eigen, generic_fast_erf_float.
inline Vec error_function(Vec x) {
  const Vec clamped = min(max(x, splat(-4.0f)), splat(4.0f));
  const Vec x2 = clamped * clamped;
  Vec p = splat(-2.72614225801306e-10f);
  p = mul_add(p, x2, splat(2.77068142495902e-08f));
  p = mul_add(p, x2, splat(-2.10102402082508e-06f));
  p = mul_add(p, x2, splat(-5.69250639462346e-05f));
  p = mul_add(p, x2, splat(-7.34990630326855e-04f));
  p = mul_add(p, x2, splat(-2.95459980854025e-03f));
  p = mul_add(p, x2, splat(-1.60960333262415e-02f));
  Vec q = splat(-1.45660718464996e-05f);
  q = mul_add(q, x2, splat(-2.13374055278905e-04f));
  q = mul_add(q, x2, splat(-1.68282697438203e-03f));
  q = mul_add(q, x2, splat(-7.37332916720468e-03f));
  q = mul_add(q, x2, splat(-1.42647390514189e-02f));
  return clamped * p / q;
}

}  // namespace
}  // namespace trireme::kernels
