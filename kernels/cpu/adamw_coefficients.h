// What AdamW needs per step, computed once in f64.
#pragma once

#include <cmath>

#include <trireme/base/check.h>
#include <trireme/kernels/elementwise.h>

#include "kernels/cpu/simd/simd_set.h"

namespace trireme::kernels {

inline AdamWCoefficients adamw_coefficients(const AdamW& options) {
  TRIREME_CHECK(options.step >= 1, "AdamW counts steps from 1");
  const auto step = static_cast<double>(options.step);
  const double correction1 = 1.0 - std::pow(static_cast<double>(options.beta1), step);
  const double correction2 = 1.0 - std::pow(static_cast<double>(options.beta2), step);
  return {.gradient_scale = options.gradient_scale,
          .beta1 = options.beta1,
          .one_minus_beta1 = 1.0f - options.beta1,
          .beta2 = options.beta2,
          .one_minus_beta2 = 1.0f - options.beta2,
          .decay = static_cast<float>(1.0 - static_cast<double>(options.learning_rate) *
                                                static_cast<double>(options.weight_decay)),
          .step_size = static_cast<float>(static_cast<double>(options.learning_rate) / correction1),
          .inverse_correction2 = static_cast<float>(1.0 / correction2),
          .epsilon = options.epsilon};
}

}  // namespace trireme::kernels
