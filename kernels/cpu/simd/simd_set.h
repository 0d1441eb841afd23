// Range kernels that exist once per instruction set. Each works on the calling thread on
// plain pointers; the functions of kernels/cpu/fast split work over the pool and call these.
//
// A new instruction set is one file that includes kernels.h with its compiler flags, and
// one line in simd_set.cc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/simd/reduce_table.h"

namespace trireme::kernels {

struct AdamWCoefficients {
  float gradient_scale, beta1, one_minus_beta1, beta2, one_minus_beta2;
  float decay;                // 1 - learning_rate * weight_decay
  float step_size;            // learning_rate / (1 - beta1^step)
  float inverse_correction2;  // 1 / (1 - beta2^step)
  float epsilon;
};

// One head's view of the tensors: row t of q is q + t * qkv_stride, and so on.
struct AttentionHead {
  const float* q;
  const float* k;
  const float* v;
  std::int64_t tokens, head_dim, qkv_stride, out_stride;
  float scale;
};
struct AttentionGradients {
  float* dq;
  float* dk;
  float* dv;
  const float* dout;
  const float* out;
  const float* log_sum_exp;  // [tokens]
};

struct LogSumExp {
  float maximum;
  double sum;  // Of exp(x - maximum).
};

struct SimdSet {
  const char* name;
  const ReduceTable* reduce;

  void (*add)(float* out, const float* a, const float* b, std::size_t count);
  void (*scale)(float* x, float factor, std::size_t count);
  void (*axpy)(float* y, float a, const float* x, std::size_t count);
  double (*sum_of_squares)(const float* x, std::size_t count);
  std::size_t (*find_non_finite)(const float* x, std::size_t count);  // `count` when there is none.
  void (*to_bf16)(void* out, const float* in, std::size_t count);
  void (*from_bf16)(float* out, const void* in, std::size_t count);
  void (*round_to_bf16)(float* out, const float* in, std::size_t count);  // The value stays f32.
  void (*adamw)(float* parameter, float* m, float* v, const float* gradient, std::size_t count,
                const AdamWCoefficients& with);
  void (*exponential)(float* out, const float* x, std::size_t count);
  void (*gelu_tanh)(float* y, const float* x, std::size_t count);
  void (*gelu_exact)(float* y, const float* x, std::size_t count);
  void (*gelu_tanh_backward)(float* dx, const float* dy, const float* x, std::size_t count);
  void (*gelu_exact_backward)(float* dx, const float* dy, const float* x, std::size_t count);

  // `rows` dense rows of `dim`; mean and rstd may be null.
  void (*layer_norm)(float* y, float* mean, float* rstd, const float* x, const float* gamma, const float* beta,
                     std::size_t rows, std::size_t dim, float epsilon);
  // `add` may be null.
  void (*layer_norm_backward)(float* dx, const float* add, const float* dy, const float* x, const float* gamma,
                              const float* mean, const float* rstd, std::size_t rows, std::size_t dim);
  // Adds the sums over `rows` rows, `stride` apart, of `columns` columns: pointers are to
  // the first of these columns.
  void (*layer_norm_weight)(float* dgamma, float* dbeta, const float* dy, const float* x, const float* mean,
                            const float* rstd, std::size_t rows, std::size_t stride, std::size_t columns);
  void (*column_sum)(float* sum, const float* x, std::size_t rows, std::size_t stride, std::size_t columns);

  LogSumExp (*log_sum_exp)(const float* x, std::size_t count);
  // As log_sum_exp, and replaces x by exp(x - maximum).
  LogSumExp (*exponentiate)(float* x, std::size_t count);

  // Rows [begin, end) of one head's output; log_sum_exp may be null.
  void (*attention)(float* out, float* log_sum_exp, const AttentionHead& head, std::int64_t begin, std::int64_t end);
  void (*attention_backward)(const AttentionHead& head, const AttentionGradients& gradients);
  // Rows per tile: `attention` ranges begin at multiples of it.
  std::int64_t (*attention_tile)(std::int64_t head_dim);
};

const SimdSet& simd_baseline();  // Any x86-64.
const SimdSet& simd_avx2();      // AVX2 and FMA.
// The best set this machine runs.
const SimdSet& simd();

}  // namespace trireme::kernels
