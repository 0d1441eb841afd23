// Eight f32 lanes by the compiler's vector extension: one AVX register, or two SSE ones.
//
// Every loop runs whole vectors, the last of them on a zero-filled copy, so that an
// element's result does not depend on where it lies in its array.
// Compiled once per instruction set; see small_float.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trireme::kernels {
namespace {

constexpr std::size_t kLanes = 8;
using Vec = float __attribute__((vector_size(32)));
using IVec = std::int32_t __attribute__((vector_size(32)));
using DVec = double __attribute__((vector_size(32)));  // Four lanes.
using HalfVec = float __attribute__((vector_size(16)));

inline Vec load(const float* from) {
  Vec value;
  __builtin_memcpy(&value, from, sizeof value);
  return value;
}
inline void store(float* to, Vec value) {
  __builtin_memcpy(to, &value, sizeof value);
}
inline Vec load_first(const float* from, std::size_t count) {
  Vec value = {};
  __builtin_memcpy(&value, from, count * sizeof(float));
  return value;
}
inline void store_first(float* to, Vec value, std::size_t count) {
  __builtin_memcpy(to, &value, count * sizeof(float));
}

inline Vec splat(float value) {
  return Vec{value, value, value, value, value, value, value, value};
}
inline IVec bits(Vec value) {
  return (IVec)value;
}
inline Vec from_bits(IVec value) {
  return (Vec)value;
}

// a * b + c, rounded once where the hardware can.
inline Vec mul_add(Vec a, Vec b, Vec c) {
#ifdef __FMA__
  return __builtin_ia32_vfmaddps256(a, b, c);
#else
  return a * b + c;
#endif
}

// value in the first `count` lanes (or all), other in the rest.
inline Vec first_lanes(Vec value, Vec other, std::size_t count) {
  const auto n = static_cast<std::int32_t>(count < kLanes ? count : kLanes);
  constexpr IVec kLane = {0, 1, 2, 3, 4, 5, 6, 7};
  return kLane < (IVec{n, n, n, n, n, n, n, n}) ? value : other;
}

inline Vec max(Vec a, Vec b) {
  return a > b ? a : b;
}
inline Vec min(Vec a, Vec b) {
  return a < b ? a : b;
}

// Pairwise, so the order is one for every instruction set.
inline float sum_lanes(Vec v) {
  return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}
inline float max_lanes(Vec v) {
  float result = v[0];
  for (std::size_t i = 1; i < kLanes; ++i) result = v[i] > result ? v[i] : result;
  return result;
}
inline DVec low_half(Vec v) {
  return __builtin_convertvector(__builtin_shufflevector(v, v, 0, 1, 2, 3), DVec);
}
inline DVec high_half(Vec v) {
  return __builtin_convertvector(__builtin_shufflevector(v, v, 4, 5, 6, 7), DVec);
}
inline double sum_lanes(DVec v) {
  return (v[0] + v[2]) + (v[1] + v[3]);
}

// Calls body(offset, lanes) for offset = 0, 8, ...: lanes is 8, and less for the last.
// `body` is a functor whose full-vector case the compiler specialises.
template <class Body>
inline void for_vectors(std::size_t count, const Body& body) {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) body(i, kLanes);
  if (i < count) body(i, count - i);
}

// load and store of `lanes` lanes at p.
inline Vec load_lanes(const float* from, std::size_t lanes) {
  return lanes == kLanes ? load(from) : load_first(from, lanes);
}
inline void store_lanes(float* to, Vec value, std::size_t lanes) {
  if (lanes == kLanes) {
    store(to, value);
  } else {
    store_first(to, value, lanes);
  }
}

}  // namespace
}  // namespace trireme::kernels
