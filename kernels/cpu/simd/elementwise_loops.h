// Loops over flat arrays: sums, conversion, AdamW, GELU.
// Compiled once per instruction set; see small_float.h.
#pragma once

#include "kernels/cpu/simd/math.h"
#include "kernels/cpu/simd/simd_set.h"
#include "kernels/cpu/simd/small_float.h"

namespace trireme::kernels {
namespace {

void add_loop(float* out, const float* a, const float* b, std::size_t count) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
}

void scale_loop(float* x, float factor, std::size_t count) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) x[i] *= factor;
}

void axpy_loop(float* y, float a, const float* x, std::size_t count) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) y[i] += a * x[i];
}

double sum_of_squares_loop(const float* x, std::size_t count) {
  DVec low = {}, high = {};
  for_vectors(count, [&](std::size_t i, std::size_t lanes) {
    const Vec v = load_lanes(x + i, lanes);
    low += low_half(v) * low_half(v);
    high += high_half(v) * high_half(v);
  });
  return sum_lanes(low + high);
}

std::size_t find_non_finite_loop(const float* x, std::size_t count) {
  constexpr std::size_t kBlock = 256;
  const auto bad = [](float value) { return (bits_of(value) & 0x7f800000u) == 0x7f800000u; };
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t end = begin + kBlock < count ? begin + kBlock : count;
    std::uint32_t any = 0;
    for (std::size_t i = begin; i < end; ++i) any |= bad(x[i]) ? 1u : 0u;
    if (any == 0) continue;
    for (std::size_t i = begin; i < end; ++i) {
      if (bad(x[i])) return i;
    }
  }
  return count;
}

void to_bf16_loop(void* out, const float* in, std::size_t count) {
  auto* codes = static_cast<std::uint16_t*>(out);
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) codes[i] = Bf16::encode(in[i]);
}

void from_bf16_loop(float* out, const void* in, std::size_t count) {
  const auto* codes = static_cast<const std::uint16_t*>(in);
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) out[i] = Bf16::decode(codes[i]);
}

void round_to_bf16_loop(float* out, const float* in, std::size_t count) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) out[i] = Bf16::decode(Bf16::encode(in[i]));
}

void adamw_loop(float* parameter, float* m, float* v, const float* gradient, std::size_t count,
                const AdamWCoefficients& with) {
  const AdamWCoefficients c = with;
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    const float g = c.gradient_scale * gradient[i];
    const float new_m = c.beta1 * m[i] + c.one_minus_beta1 * g;
    const float new_v = c.beta2 * v[i] + c.one_minus_beta2 * (g * g);
    m[i] = new_m;
    v[i] = new_v;
    const float denominator = __builtin_sqrtf(new_v * c.inverse_correction2) + c.epsilon;
    parameter[i] = c.decay * parameter[i] - c.step_size * (new_m / denominator);
  }
}

void exponential_loop(float* out, const float* x, std::size_t count) {
  for_vectors(count, [&](std::size_t i, std::size_t lanes) {
    store_lanes(out + i, exponential(load_lanes(x + i, lanes)), lanes);
  });
}

// 0.5 (1 + tanh(u)) is the logistic function of 2u, so one exp does.
constexpr float kTwoRootTwoOverPi = 1.5957691216057308f;
constexpr float kGeluCubic = 0.044715f;

inline Vec logistic(Vec x) {
  return 1.0f / (1.0f + exponential(-x));
}

void gelu_tanh_loop(float* y, const float* x, std::size_t count) {
  for_vectors(count, [&](std::size_t i, std::size_t lanes) {
    const Vec v = load_lanes(x + i, lanes);
    store_lanes(y + i, v * logistic(kTwoRootTwoOverPi * v * (1.0f + kGeluCubic * v * v)), lanes);
  });
}

void gelu_tanh_backward_loop(float* dx, const float* dy, const float* x, std::size_t count) {
  for_vectors(count, [&](std::size_t i, std::size_t lanes) {
    const Vec v = load_lanes(x + i, lanes);
    const Vec square = v * v;
    const Vec s = logistic(kTwoRootTwoOverPi * v * (1.0f + kGeluCubic * square));
    const Vec inner = kTwoRootTwoOverPi * (1.0f + (3.0f * kGeluCubic) * square);
    store_lanes(dx + i, load_lanes(dy + i, lanes) * (s + v * s * (1.0f - s) * inner), lanes);
  });
}

constexpr float kRootHalf = 0.70710678118654752f;
constexpr float kInverseRootTwoPi = 0.39894228040143268f;

void gelu_exact_loop(float* y, const float* x, std::size_t count) {
  for_vectors(count, [&](std::size_t i, std::size_t lanes) {
    const Vec v = load_lanes(x + i, lanes);
    store_lanes(y + i, 0.5f * v * (1.0f + error_function(kRootHalf * v)), lanes);
  });
}

void gelu_exact_backward_loop(float* dx, const float* dy, const float* x, std::size_t count) {
  for_vectors(count, [&](std::size_t i, std::size_t lanes) {
    const Vec v = load_lanes(x + i, lanes);
    const Vec distribution = 0.5f * (1.0f + error_function(kRootHalf * v));
    const Vec density = kInverseRootTwoPi * exponential(-0.5f * v * v);
    store_lanes(dx + i, load_lanes(dy + i, lanes) * (distribution + v * density), lanes);
  });
}

}  // namespace
}  // namespace trireme::kernels
