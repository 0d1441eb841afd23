// The reference set's loss head and flat-array kernels.
#include "kernels/cpu/adamw_coefficients.h"
#include "kernels/cpu/head_scratch.h"
#include "kernels/cpu/kernel_set.h"
#include "kernels/cpu/reference/layers.h"

#include <cmath>

#include <trireme/base/check.h>
#include <trireme/base/float_types.h>

namespace trireme::kernels::reference {
namespace {

bool rounded(Precision precision) {
  return precision == Precision::bf16;
}

// One row at a time, in the first row of the scratch.
HeadLoss run_head(const HeadCrossEntropy& call, bool gradients) {
  const HeadShape& s = call.shape;
  HeadLoss result;
  if (s.rows == 0) return result;
  float* logits = head_scratch(call).logits;
  const LinearShape shape{1, s.dim, s.vocabulary};
  for (std::int64_t r = 0; r < s.rows; ++r) {
    float* dh = gradients ? call.dh + r * s.dim : nullptr;
    if (call.targets[r] == call.ignore_index) {
      if (gradients) std::fill_n(dh, s.dim, 0.0f);
      continue;
    }
    TRIREME_CHECK(call.targets[r] >= 0 && call.targets[r] < s.vocabulary,
                  "a target is in the vocabulary or ignore_index");
    const float* h = call.h + r * s.dim;
    linear<float>(logits, h, call.w, nullptr, shape, rounded(call.precision));
    result.loss_sum += cross_entropy_row(logits, s.vocabulary, call.targets[r], static_cast<double>(call.scale));
    ++result.rows;
    if (!gradients) continue;
    linear_input<float>(dh, logits, call.w, shape, rounded(call.precision), false);
    if (call.dw != nullptr) linear_weight<float>(call.dw, nullptr, logits, h, shape, rounded(call.precision));
  }
  return result;
}

}  // namespace

HeadLoss head_cross_entropy(ThreadPool&, const HeadCrossEntropy& call) {
  return run_head(call, true);
}
HeadLoss head_loss(ThreadPool&, const HeadCrossEntropy& call) {
  return run_head(call, false);
}

void head_logits(ThreadPool&, float* logits, const float* h, const float* w, HeadShape shape, Precision precision) {
  linear<float>(logits, h, w, nullptr, {shape.rows, shape.dim, shape.vocabulary}, rounded(precision));
}

void adamw_step(ThreadPool&, float* parameter, float* m, float* v, const float* gradient, std::int64_t count,
                const AdamW& options) {
  const AdamWCoefficients c = adamw_coefficients(options);
  for (std::int64_t i = 0; i < count; ++i) {
    const float g = c.gradient_scale * gradient[i];
    m[i] = c.beta1 * m[i] + c.one_minus_beta1 * g;
    v[i] = c.beta2 * v[i] + c.one_minus_beta2 * g * g;
    const float denominator = std::sqrt(v[i] * c.inverse_correction2) + c.epsilon;
    parameter[i] = c.decay * parameter[i] - c.step_size * m[i] / denominator;
  }
}

double sum_of_squares(ThreadPool&, const float* x, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

void scale(ThreadPool&, float* x, float factor, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) x[i] *= factor;
}

void axpy(ThreadPool&, float* y, float a, const float* x, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] += a * x[i];
}

std::int64_t find_non_finite(ThreadPool&, const float* x, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(x[i])) return i;
  }
  return -1;
}

void convert_to_bf16(ThreadPool&, std::uint16_t* out, const float* in, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = f32_to_bf16(in[i]);
}

void convert_to_f32(ThreadPool&, float* out, const std::uint16_t* in, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = bf16_to_f32(in[i]);
}

}  // namespace trireme::kernels::reference
