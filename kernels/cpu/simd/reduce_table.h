// The table of reduction kernels: one row per DataType, one column per ReduceOp.
// Each instruction set and the reference have one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trireme::kernels {

struct ReduceRow {
  using Reduce = void (*)(void* out, const void* a, const void* b, std::size_t count);
  using Average = void (*)(void* data, std::size_t count, std::int64_t divisor);
  using Widen = void (*)(float* out, const void* in, std::size_t count);
  using Narrow = void (*)(void* out, const float* in, std::size_t count);
  using Accumulate = void (*)(float* accumulator, const void* in, std::size_t count);

  Reduce reduce[5];
  Average average;
  Widen widen;  // The last three are null but for f32 and the low-precision types.
  Narrow narrow;
  Accumulate accumulate[5];
};

struct ReduceTable {
  ReduceRow row[13];
};

}  // namespace trireme::kernels
