// Matrix products of row-major f32 matrices.
//
// Thread safety: safe for calls that write different outputs. A call splits its output
// into tiles whose shapes depend on the sizes and on pool.threads() only, so the same
// call with the same number of threads gives the same bits. A warm call allocates
// nothing of ours.
#pragma once

#include <cstdint>

#include <trireme/device/thread_pool.h>

namespace trireme::kernels {

// How products are computed. Memory holds f32 either way.
enum class Precision : std::uint8_t {
  f32,
  bf16,  // Both inputs are rounded to bf16 as they are read; sums stay f32.
};

// C[m, n] = alpha * op(A)[m, k] op(B)[k, n] + beta * C + bias[n] (in every row).
// op(X) is X, or its transpose; a leading dimension is the distance in elements between
// the stored rows: at least k for A (m when transposed), n for B (k when transposed), n for C.
// beta = 0 does not read C. Sizes may be zero; with k = 0 the product is zero.
// C overlaps neither A nor B.
struct Matmul {
  std::int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  std::int64_t lda = 0;
  bool transpose_a = false;
  const float* b = nullptr;
  std::int64_t ldb = 0;
  bool transpose_b = false;
  float* c = nullptr;
  std::int64_t ldc = 0;
  float alpha = 1.0f;
  float beta = 0.0f;
  const float* bias = nullptr;
  Precision precision = Precision::f32;
};
void matmul(ThreadPool& pool, const Matmul& call);

// A fully connected layer: y[rows, out] = x[rows, in] W^T + bias, with W[out, in] as in
// GPT-2 and PyTorch. `bias` may be null. All matrices are dense.
struct LinearShape {
  std::int64_t rows = 0, in = 0, out = 0;
};
void linear_forward(ThreadPool& pool, float* y, const float* x, const float* w, const float* bias, LinearShape shape,
                    Precision precision = Precision::f32);
// dx[rows, in] = dy W, added to dx if `accumulate`.
void linear_backward_input(ThreadPool& pool, float* dx, const float* dy, const float* w, LinearShape shape,
                           Precision precision = Precision::f32, bool accumulate = false);
// dw += dy^T x; dbias += the sum of dy's rows unless dbias is null.
void linear_backward_weight(ThreadPool& pool, float* dw, float* dbias, const float* dy, const float* x,
                            LinearShape shape, Precision precision = Precision::f32);

}  // namespace trireme::kernels
