// What every layer's file needs.
#pragma once

#include <cstdint>

#include <trireme/kernels/matmul.h>
#include <trireme/parallel/module.h>

namespace trireme {

// Tokens in an activation: all extents but the last.
inline std::int64_t rows_of(const Tensor& activation) {
  return activation.shape[0] * activation.shape[1];
}

inline const float* values(ParameterViews parameters, int id) {
  return parameters[static_cast<std::size_t>(id)].as<float>();
}

inline kernels::Precision precision_of(const Context& context) {
  return context.product_type == DataType::bf16 ? kernels::Precision::bf16 : kernels::Precision::f32;
}

}  // namespace trireme
