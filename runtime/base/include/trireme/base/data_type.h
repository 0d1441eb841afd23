// Data types of elements and the operations that reduce them: one list for the
// whole runtime (kernels, collectives, tensors, checkpoints, benchmarks).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <trireme/base/status.h>

namespace trireme {

enum class DataType : std::uint8_t {
  f64 = 0,
  f32,
  f16,      // IEEE 754 binary16
  bf16,     // bfloat16: the upper half of an f32
  f8_e4m3,  // OCP FP8 E4M3: no infinities, 0x7f and 0xff are NaN
  f8_e5m2,  // OCP FP8 E5M2: infinities and NaNs as in IEEE
  i8,
  u8,
  i32,
  u32,
  i64,
  u64,
  boolean,  // One byte, 0 or 1. Sum and max are "or", product and min are "and".
};
inline constexpr int kDataTypeCount = 13;

enum class ReduceOp : std::uint8_t {
  sum = 0,
  product,
  min,
  max,
  average,  // The sum divided by the number of ranks; integers round towards zero.
};
inline constexpr int kReduceOpCount = 5;

// Bytes of one element.
constexpr std::size_t size_of(DataType type) {
  switch (type) {
    case DataType::f64:
    case DataType::i64:
    case DataType::u64:
      return 8;
    case DataType::f32:
    case DataType::i32:
    case DataType::u32:
      return 4;
    case DataType::f16:
    case DataType::bf16:
      return 2;
    case DataType::f8_e4m3:
    case DataType::f8_e5m2:
    case DataType::i8:
    case DataType::u8:
    case DataType::boolean:
      return 1;
  }
  return 0;
}

constexpr bool is_floating_point(DataType type) {
  return type <= DataType::f8_e5m2;
}
// Floating-point types of less than 32 bits: their sums accumulate in f32.
constexpr bool is_low_precision(DataType type) {
  return type >= DataType::f16 && type <= DataType::f8_e5m2;
}

// "f32", "bf16", "f8_e4m3", "bool", ...
std::string_view to_string(DataType type);
// "sum", "prod", "min", "max", "avg": the names nccl-tests' users know.
std::string_view to_string(ReduceOp op);
// The inverse; also takes the names of nccl-tests ("float", "half", "bfloat16",
// "int32", "fp8e4m3", ...) and "prod"/"product", "avg"/"average".
// Errors: invalid_argument listing every accepted name.
Result<DataType> parse_data_type(std::string_view name);
Result<ReduceOp> parse_reduce_op(std::string_view name);

}  // namespace trireme
