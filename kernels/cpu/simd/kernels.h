// Everything of this folder that is compiled once per instruction set, as one SimdSet.
#pragma once

#include "kernels/cpu/simd/attention_loops.h"
#include "kernels/cpu/simd/elementwise_loops.h"
#include "kernels/cpu/simd/reduce_loops.h"
#include "kernels/cpu/simd/row_loops.h"
#include "kernels/cpu/simd/simd_set.h"

namespace trireme::kernels {
namespace {

constexpr SimdSet make_simd_set(const char* name) {
  return {
      .name = name,
      .reduce = &kReduceTable,
      .add = &add_loop,
      .scale = &scale_loop,
      .axpy = &axpy_loop,
      .sum_of_squares = &sum_of_squares_loop,
      .find_non_finite = &find_non_finite_loop,
      .to_bf16 = &to_bf16_loop,
      .from_bf16 = &from_bf16_loop,
      .round_to_bf16 = &round_to_bf16_loop,
      .adamw = &adamw_loop,
      .exponential = &exponential_loop,
      .gelu_tanh = &gelu_tanh_loop,
      .gelu_exact = &gelu_exact_loop,
      .gelu_tanh_backward = &gelu_tanh_backward_loop,
      .gelu_exact_backward = &gelu_exact_backward_loop,
      .layer_norm = &layer_norm_loop,
      .layer_norm_backward = &layer_norm_backward_loop,
      .layer_norm_weight = &layer_norm_weight_loop,
      .column_sum = &column_sum_loop,
      .log_sum_exp = &log_sum_exp_loop,
      .exponentiate = &exponentiate_loop,
      .attention = &attention_loop,
      .attention_backward = &attention_backward_loop,
      .attention_tile = &tile_rows,
  };
}

}  // namespace
}  // namespace trireme::kernels
