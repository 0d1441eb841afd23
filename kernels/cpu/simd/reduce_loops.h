// The loops behind <trireme/kernels/reduce.h>: one operation per struct, one element
// representation per struct, and every pair of them as one cell of kReduceTable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/cpu/simd/reduce_table.h"
#include "kernels/cpu/simd/small_float.h"

namespace trireme::kernels {
namespace {

// Integers add and multiply as unsigned numbers, so that overflow wraps.
struct Sum {
  template <class T>
  static inline T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
    } else {
      return a + b;
    }
  }
};

struct Product {
  template <class T>
  static inline T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(static_cast<U>(a) * static_cast<U>(b)));
    } else {
      return a * b;
    }
  }
};

template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

// Equal operands differ at most in the sign of zero: "or" of the bits picks -0 for min,
// "and" picks +0 for max. NaN in, the one quiet NaN out.
template <bool kMin>
struct Extreme {
  template <class T>
  static inline T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return (kMin ? a < b : a > b) ? a : b;
    } else {
      using Bits = BitsOf<T>;
      const Bits bits_a = __builtin_bit_cast(Bits, a);
      const Bits bits_b = __builtin_bit_cast(Bits, b);
      const T zero = __builtin_bit_cast(T, kMin ? Bits(bits_a | bits_b) : Bits(bits_a & bits_b));
      T result = (kMin ? a < b : a > b) ? a : b;
      result = a == b ? zero : result;
      return (a != a) | (b != b) ? static_cast<T>(__builtin_nanf("")) : result;
    }
  }
};
using Min = Extreme<true>;
using Max = Extreme<false>;

// How elements lie in memory and in which type they compute.
template <class T>
struct Native {
  using Code = T;
  using Wide = T;
  static inline T decode(T value) { return value; }
  static inline T encode(T value) { return value; }
  template <class Op>
  static inline T apply(T a, T b) {
    return Op::template apply<T>(a, b);
  }
  static inline T divide(T value, std::int64_t divisor) {
    if constexpr (std::is_floating_point_v<T>) {
      return value / static_cast<T>(divisor);
    } else if constexpr (std::is_signed_v<T>) {
      return static_cast<T>(static_cast<std::int64_t>(value) / divisor);
    } else {
      return static_cast<T>(static_cast<std::uint64_t>(value) / static_cast<std::uint64_t>(divisor));
    }
  }
};

template <class Format>
struct Low {
  using Code = typename Format::Code;
  template <class Op>
  static inline Code apply(Code a, Code b) {
    return Format::encode(Op::template apply<float>(Format::decode(a), Format::decode(b)));
  }
  static inline Code divide(Code value, std::int64_t divisor) {
    return Format::encode(Format::decode(value) / static_cast<float>(divisor));
  }
};

struct Boolean {
  using Code = std::uint8_t;
  template <class Op>
  static inline Code apply(Code a, Code b) {
    constexpr bool kOr = std::is_same_v<Op, Sum> || std::is_same_v<Op, Max>;
    const std::uint8_t x = a != 0;
    const std::uint8_t y = b != 0;
    return static_cast<Code>(kOr ? x | y : x & y);
  }
  static inline Code divide(Code value, std::int64_t) { return value != 0; }
};

// ivdep: an output equal to an input is no dependence between iterations.
template <class Element, class Op>
void reduce_loop(void* out, const void* a, const void* b, std::size_t count) {
  using Code = typename Element::Code;
  auto* result = static_cast<Code*>(out);
  const auto* left = static_cast<const Code*>(a);
  const auto* right = static_cast<const Code*>(b);
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) result[i] = Element::template apply<Op>(left[i], right[i]);
}

template <class Element>
void average_loop(void* data, std::size_t count, std::int64_t divisor) {
  auto* values = static_cast<typename Element::Code*>(data);
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) values[i] = Element::divide(values[i], divisor);
}

template <class Format>
void widen_loop(float* out, const void* in, std::size_t count) {
  const auto* codes = static_cast<const typename Format::Code*>(in);
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) out[i] = Format::decode(codes[i]);
}

template <class Format>
void narrow_loop(void* out, const float* in, std::size_t count) {
  auto* codes = static_cast<typename Format::Code*>(out);
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) codes[i] = Format::encode(in[i]);
}

template <class Format, class Op>
void accumulate_loop(float* accumulator, const void* in, std::size_t count) {
  const auto* codes = static_cast<const typename Format::Code*>(in);
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    accumulator[i] = Op::template apply<float>(accumulator[i], Format::decode(codes[i]));
  }
}

// One row per data type, in the order of DataType; columns in the order of ReduceOp,
// where average sums.
template <class Element>
constexpr ReduceRow reduce_row() {
  return {{&reduce_loop<Element, Sum>, &reduce_loop<Element, Product>, &reduce_loop<Element, Min>,
           &reduce_loop<Element, Max>, &reduce_loop<Element, Sum>},
          &average_loop<Element>,
          nullptr,
          nullptr,
          {}};
}

template <class Element, class Format>
constexpr ReduceRow wide_reduce_row() {
  ReduceRow row = reduce_row<Element>();
  row.widen = &widen_loop<Format>;
  row.narrow = &narrow_loop<Format>;
  row.accumulate[0] = &accumulate_loop<Format, Sum>;
  row.accumulate[1] = &accumulate_loop<Format, Product>;
  row.accumulate[2] = &accumulate_loop<Format, Min>;
  row.accumulate[3] = &accumulate_loop<Format, Max>;
  row.accumulate[4] = &accumulate_loop<Format, Sum>;
  return row;
}

constexpr ReduceTable kReduceTable = {{
    reduce_row<Native<double>>(),
    wide_reduce_row<Native<float>, F32>(),
    wide_reduce_row<Low<F16>, F16>(),
    wide_reduce_row<Low<Bf16>, Bf16>(),
    wide_reduce_row<Low<F8E4M3>, F8E4M3>(),
    wide_reduce_row<Low<F8E5M2>, F8E5M2>(),
    reduce_row<Native<std::int8_t>>(),
    reduce_row<Native<std::uint8_t>>(),
    reduce_row<Native<std::int32_t>>(),
    reduce_row<Native<std::uint32_t>>(),
    reduce_row<Native<std::int64_t>>(),
    reduce_row<Native<std::uint64_t>>(),
    reduce_row<Boolean>(),
}};

}  // namespace
}  // namespace trireme::kernels
