// Reductions: out[i] = a[i] op b[i], for every data type and operation.
//
// What each cell of the (type, operation) table does:
//  - floating point: sum and product round once; f16, bf16 and f8 compute in f32 and
//    round once to their own type (f8_e4m3 saturates, see base/float_types.h);
//  - integers: sum and product wrap modulo 2^bits;
//  - boolean: any non-zero byte counts as 1, results are 0 or 1; sum and max are "or",
//    product and min are "and";
//  - min and max: a NaN operand makes the result NaN, and -0 < +0, so that the result
//    does not depend on the order of the operands;
//  - average: the sum here; whoever knows the number of contributions calls
//    scale_average on the finished sum.
// The wide forms carry low-precision partial results in f32, so that a reduction over
// many ranks rounds once at its end.
//
// Thread safety: pure functions of their arguments; they allocate nothing and run on
// the calling thread. Pointers need the alignment of one element only. `out` may be
// equal to `a` or `b`; other overlaps are not allowed. count 0 is legal.
#pragma once

#include <cstddef>
#include <cstdint>

#include <trireme/base/data_type.h>

namespace trireme::kernels {

using ReduceFunction = void (*)(void* out, const void* a, const void* b, std::size_t count);

// The table's cell, for callers that look it up once. Never null.
ReduceFunction reduce_function(DataType type, ReduceOp op);
void reduce(void* out, const void* a, const void* b, std::size_t count, DataType type, ReduceOp op);

// data[i] = data[i] / divisor: the last step of ReduceOp::average. Low-precision types
// divide in f32 and round once, integers round towards zero, booleans stay ("or").
// REQUIRES: divisor >= 1.
void scale_average(void* data, std::size_t count, DataType type, std::int64_t divisor);

// Low-precision elements to f32; exact. REQUIRES for the three wide forms: `type` is
// f32 or is_low_precision(type).
void widen(float* out, const void* in, std::size_t count, DataType type);
// accumulator[i] = accumulator[i] op widened in[i], in f32.
void accumulate_wide(float* accumulator, const void* in, std::size_t count, DataType type, ReduceOp op);
// f32 to `type`, rounding to nearest even.
void narrow(void* out, const float* in, std::size_t count, DataType type);

}  // namespace trireme::kernels
