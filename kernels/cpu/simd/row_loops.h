// Loops over the rows or the columns of a matrix: layer norm, column sums, log-sum-exp.
// Compiled once per instruction set; see small_float.h.
#pragma once

#include "kernels/cpu/simd/math.h"
#include "kernels/cpu/simd/simd_set.h"

namespace trireme::kernels {
namespace {

// x - value in the lanes that exist, 0 in the others.
inline Vec centred(const float* x, float value, std::size_t lanes) {
  const Vec difference = load_lanes(x, lanes) - value;
  return lanes == kLanes ? difference : first_lanes(difference, Vec{}, lanes);
}

void layer_norm_row(float* y, float* mean_out, float* rstd_out, const float* x, const float* gamma, const float* beta,
                    std::size_t dim, float epsilon) {
  Vec sum = {};
  for_vectors(dim, [&](std::size_t i, std::size_t lanes) { sum += load_lanes(x + i, lanes); });
  const float mean = sum_lanes(sum) / static_cast<float>(dim);
  Vec squares = {};
  for_vectors(dim, [&](std::size_t i, std::size_t lanes) {
    const Vec d = centred(x + i, mean, lanes);
    squares += d * d;
  });
  const float rstd = 1.0f / __builtin_sqrtf(sum_lanes(squares) / static_cast<float>(dim) + epsilon);
  for_vectors(dim, [&](std::size_t i, std::size_t lanes) {
    const Vec normal = (load_lanes(x + i, lanes) - mean) * rstd;
    store_lanes(y + i, normal * load_lanes(gamma + i, lanes) + load_lanes(beta + i, lanes), lanes);
  });
  if (mean_out != nullptr) *mean_out = mean;
  if (rstd_out != nullptr) *rstd_out = rstd;
}

void layer_norm_loop(float* y, float* mean, float* rstd, const float* x, const float* gamma, const float* beta,
                     std::size_t rows, std::size_t dim, float epsilon) {
  for (std::size_t r = 0; r < rows; ++r) {
    layer_norm_row(y + r * dim, mean == nullptr ? nullptr : mean + r, rstd == nullptr ? nullptr : rstd + r, x + r * dim,
                   gamma, beta, dim, epsilon);
  }
}

// With n = (x - mean) rstd and g = dy gamma: dx = rstd (g - mean(g) - n mean(g n)).
void layer_norm_backward_row(float* dx, const float* add, const float* dy, const float* x, const float* gamma,
                             float mean, float rstd, std::size_t dim) {
  Vec sum = {}, projection = {};
  for_vectors(dim, [&](std::size_t i, std::size_t lanes) {
    const Vec g = load_lanes(dy + i, lanes) * load_lanes(gamma + i, lanes);
    sum += g;
    projection += g * ((load_lanes(x + i, lanes) - mean) * rstd);
  });
  const float mean_g = sum_lanes(sum) / static_cast<float>(dim);
  const float mean_gn = sum_lanes(projection) / static_cast<float>(dim);
  for_vectors(dim, [&](std::size_t i, std::size_t lanes) {
    const Vec g = load_lanes(dy + i, lanes) * load_lanes(gamma + i, lanes);
    const Vec normal = (load_lanes(x + i, lanes) - mean) * rstd;
    Vec result = (g - mean_g - normal * mean_gn) * rstd;
    if (add != nullptr) result += load_lanes(add + i, lanes);
    store_lanes(dx + i, result, lanes);
  });
}

void layer_norm_backward_loop(float* dx, const float* add, const float* dy, const float* x, const float* gamma,
                              const float* mean, const float* rstd, std::size_t rows, std::size_t dim) {
  for (std::size_t r = 0; r < rows; ++r) {
    const std::size_t at = r * dim;
    layer_norm_backward_row(dx + at, add == nullptr ? nullptr : add + at, dy + at, x + at, gamma, mean[r], rstd[r],
                            dim);
  }
}

// Column sums take four vectors of columns at a time, so that they stay in registers
// over all rows and the order of summation is the order of rows.
constexpr std::size_t kColumnVectors = 4;

template <std::size_t kVectors>
void layer_norm_weight_block(float* dgamma, float* dbeta, const float* dy, const float* x, const float* mean,
                             const float* rstd, std::size_t rows, std::size_t stride, std::size_t lanes) {
  Vec gamma_sum[kVectors] = {}, beta_sum[kVectors] = {};
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t j = 0; j < kVectors; ++j) {
      const std::size_t at = r * stride + j * kLanes;
      const Vec d = load_lanes(dy + at, lanes);
      beta_sum[j] += d;
      gamma_sum[j] += d * ((load_lanes(x + at, lanes) - mean[r]) * rstd[r]);
    }
  }
  for (std::size_t j = 0; j < kVectors; ++j) {
    const std::size_t at = j * kLanes;
    store_lanes(dgamma + at, load_lanes(dgamma + at, lanes) + gamma_sum[j], lanes);
    store_lanes(dbeta + at, load_lanes(dbeta + at, lanes) + beta_sum[j], lanes);
  }
}

void layer_norm_weight_loop(float* dgamma, float* dbeta, const float* dy, const float* x, const float* mean,
                            const float* rstd, std::size_t rows, std::size_t stride, std::size_t columns) {
  std::size_t c = 0;
  for (; c + kColumnVectors * kLanes <= columns; c += kColumnVectors * kLanes) {
    layer_norm_weight_block<kColumnVectors>(dgamma + c, dbeta + c, dy + c, x + c, mean, rstd, rows, stride, kLanes);
  }
  for (; c < columns; c += kLanes) {
    const std::size_t lanes = columns - c < kLanes ? columns - c : kLanes;
    layer_norm_weight_block<1>(dgamma + c, dbeta + c, dy + c, x + c, mean, rstd, rows, stride, lanes);
  }
}

template <std::size_t kVectors>
void column_sum_block(float* sum, const float* x, std::size_t rows, std::size_t stride, std::size_t lanes) {
  Vec total[kVectors] = {};
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t j = 0; j < kVectors; ++j) total[j] += load_lanes(x + r * stride + j * kLanes, lanes);
  }
  for (std::size_t j = 0; j < kVectors; ++j) {
    store_lanes(sum + j * kLanes, load_lanes(sum + j * kLanes, lanes) + total[j], lanes);
  }
}

void column_sum_loop(float* sum, const float* x, std::size_t rows, std::size_t stride, std::size_t columns) {
  std::size_t c = 0;
  for (; c + kColumnVectors * kLanes <= columns; c += kColumnVectors * kLanes) {
    column_sum_block<kColumnVectors>(sum + c, x + c, rows, stride, kLanes);
  }
  for (; c < columns; c += kLanes) {
    const std::size_t lanes = columns - c < kLanes ? columns - c : kLanes;
    column_sum_block<1>(sum + c, x + c, rows, stride, lanes);
  }
}

// `count` is at least 1.
float maximum_of(const float* x, std::size_t count) {
  Vec largest = splat(x[0]);
  Vec nan = {};  // max() drops a NaN operand; the sum keeps it.
  for_vectors(count, [&](std::size_t i, std::size_t lanes) {
    Vec v = load_lanes(x + i, lanes);
    if (lanes < kLanes) v = first_lanes(v, splat(x[0]), lanes);
    nan += v != v ? v : Vec{};
    largest = max(v, largest);
  });
  const float poison = sum_lanes(nan);
  return poison != poison ? poison : max_lanes(largest);
}

template <bool kStore>
LogSumExp log_sum_exp_row(const float* x, float* out, std::size_t count) {
  const float maximum = maximum_of(x, count);
  DVec low = {}, high = {};
  for_vectors(count, [&](std::size_t i, std::size_t lanes) {
    Vec e = exponential(load_lanes(x + i, lanes) - maximum);
    if (lanes < kLanes) e = first_lanes(e, Vec{}, lanes);
    if (kStore) store_lanes(out + i, e, lanes);
    low += low_half(e);
    high += high_half(e);
  });
  return {maximum, sum_lanes(low + high)};
}

LogSumExp log_sum_exp_loop(const float* x, std::size_t count) {
  return log_sum_exp_row<false>(x, nullptr, count);
}
LogSumExp exponentiate_loop(float* x, std::size_t count) {
  return log_sum_exp_row<true>(x, x, count);
}

}  // namespace
}  // namespace trireme::kernels
