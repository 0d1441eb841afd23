// Flat f32 arrays: the optimizer's step, norms, scaling, conversion.
//
// Thread safety: safe for calls that write different outputs. Nothing is allocated.
// Element i of an output depends on element i of the inputs only, and sums are taken in
// an order that depends on the count only: the number of threads does not show.
#pragma once

#include <cstdint>

#include <trireme/device/thread_pool.h>

namespace trireme::kernels {

// AdamW: Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019.
struct AdamW {
  float learning_rate = 0;
  float beta1 = 0.9f, beta2 = 0.95f;
  float epsilon = 1e-8f;
  float weight_decay = 0;
  float gradient_scale = 1;  // Multiplies the gradient as it is read: clipping, loss scale.
  std::int64_t step = 1;     // Counts from 1, for bias correction.
};
// g = gradient_scale * gradient; m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
// parameter = (1 - learning_rate weight_decay) parameter
//             - learning_rate (m / (1 - beta1^step)) / (sqrt(v / (1 - beta2^step)) + epsilon).
void adamw_step(ThreadPool& pool, float* parameter, float* m, float* v, const float* gradient, std::int64_t count,
                const AdamW& options);

// Sum of squares in f64.
double sum_of_squares(ThreadPool& pool, const float* x, std::int64_t count);
// x *= factor
void scale(ThreadPool& pool, float* x, float factor, std::int64_t count);
// y += a * x
void axpy(ThreadPool& pool, float* y, float a, const float* x, std::int64_t count);
// The index of the first infinity or NaN, or -1.
std::int64_t find_non_finite(ThreadPool& pool, const float* x, std::int64_t count);

// bf16 is held as std::uint16_t. Rounds to nearest even.
void convert_to_bf16(ThreadPool& pool, std::uint16_t* out, const float* in, std::int64_t count);
void convert_to_f32(ThreadPool& pool, float* out, const std::uint16_t* in, std::int64_t count);

}  // namespace trireme::kernels
