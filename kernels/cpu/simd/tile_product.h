// Products of small matrices that lie in the cache, for attention's tiles, where a call
// into oneDNN costs as much as the product.
//
// C[m, n] (+)= A B with n a multiple of eight: C's block of up to six rows by two vectors
// stays in registers over all of k. A is read one element at a time through two strides, so
// it may be transposed; B's rows are contiguous.
// Compiled once per instruction set; see small_float.h.
#pragma once

#include "kernels/cpu/simd/vector.h"

namespace trireme::kernels {
namespace {

struct TileOperand {
  const float* data;
  std::size_t row_stride, column_stride;
};

template <std::size_t kRows, std::size_t kVectors>
inline void tile_block(float* c, std::size_t ldc, const float* a, TileOperand strides, const float* b, std::size_t ldb,
                       std::size_t k, bool accumulate) {
  Vec sum[kRows][kVectors];
  for (std::size_t i = 0; i < kRows; ++i) {
    for (std::size_t j = 0; j < kVectors; ++j) sum[i][j] = accumulate ? load(c + i * ldc + j * kLanes) : Vec{};
  }
  for (std::size_t p = 0; p < k; ++p) {
    Vec right[kVectors];
    for (std::size_t j = 0; j < kVectors; ++j) right[j] = load(b + p * ldb + j * kLanes);
    for (std::size_t i = 0; i < kRows; ++i) {
      const Vec left = splat(a[i * strides.row_stride + p * strides.column_stride]);
      for (std::size_t j = 0; j < kVectors; ++j) sum[i][j] = mul_add(left, right[j], sum[i][j]);
    }
  }
  for (std::size_t i = 0; i < kRows; ++i) {
    for (std::size_t j = 0; j < kVectors; ++j) store(c + i * ldc + j * kLanes, sum[i][j]);
  }
}

template <std::size_t kVectors>
void tile_columns(float* c, std::size_t ldc, TileOperand a, const float* b, std::size_t ldb, std::size_t m,
                  std::size_t k, bool accumulate) {
  std::size_t i = 0;
  for (; i + 6 <= m; i += 6) {
    tile_block<6, kVectors>(c + i * ldc, ldc, a.data + i * a.row_stride, a, b, ldb, k, accumulate);
  }
  for (; i + 2 <= m; i += 2) {
    tile_block<2, kVectors>(c + i * ldc, ldc, a.data + i * a.row_stride, a, b, ldb, k, accumulate);
  }
  if (i < m) tile_block<1, kVectors>(c + i * ldc, ldc, a.data + i * a.row_stride, a, b, ldb, k, accumulate);
}

// REQUIRES: n is a multiple of kLanes.
void tile_product(float* c, std::size_t ldc, TileOperand a, const float* b, std::size_t ldb, std::size_t m,
                  std::size_t n, std::size_t k, bool accumulate) {
  std::size_t j = 0;
  for (; j + 2 * kLanes <= n; j += 2 * kLanes) tile_columns<2>(c + j, ldc, a, b + j, ldb, m, k, accumulate);
  if (j < n) tile_columns<1>(c + j, ldc, a, b + j, ldb, m, k, accumulate);
}

}  // namespace
}  // namespace trireme::kernels
