#include "kernels/cpu/reference/reduce.h"

#include <cmath>
#include <cstring>
#include <limits>

#include <trireme/base/data_type.h>
#include <trireme/base/float_types.h>

namespace trireme::kernels::reference {
namespace {

// Reading and writing one element of type kType as the type it computes in.
template <DataType kType>
struct Element;

template <class T>
struct PlainElement {
  using Wide = T;
  static constexpr std::size_t kBytes = sizeof(T);
  static T load(const void* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  static void store(void* at, T value) { std::memcpy(at, &value, sizeof value); }
};

template <class Code, float (*kDecode)(Code), Code (*kEncode)(float)>
struct CodedElement {
  using Wide = float;
  static constexpr std::size_t kBytes = sizeof(Code);
  static float load(const void* at) { return kDecode(PlainElement<Code>::load(at)); }
  static void store(void* at, float value) { PlainElement<Code>::store(at, kEncode(value)); }
};

struct BooleanElement {
  using Wide = bool;
  static constexpr std::size_t kBytes = 1;
  static bool load(const void* at) { return PlainElement<std::uint8_t>::load(at) != 0; }
  static void store(void* at, bool value) { PlainElement<std::uint8_t>::store(at, value ? 1 : 0); }
};

template <>
struct Element<DataType::f64> : PlainElement<double> {};
template <>
struct Element<DataType::f32> : PlainElement<float> {};
template <>
struct Element<DataType::f16> : CodedElement<std::uint16_t, f16_to_f32, f32_to_f16> {};
template <>
struct Element<DataType::bf16> : CodedElement<std::uint16_t, bf16_to_f32, f32_to_bf16> {};
template <>
struct Element<DataType::f8_e4m3> : CodedElement<std::uint8_t, f8_e4m3_to_f32, f32_to_f8_e4m3> {};
template <>
struct Element<DataType::f8_e5m2> : CodedElement<std::uint8_t, f8_e5m2_to_f32, f32_to_f8_e5m2> {};
template <>
struct Element<DataType::i8> : PlainElement<std::int8_t> {};
template <>
struct Element<DataType::u8> : PlainElement<std::uint8_t> {};
template <>
struct Element<DataType::i32> : PlainElement<std::int32_t> {};
template <>
struct Element<DataType::u32> : PlainElement<std::uint32_t> {};
template <>
struct Element<DataType::i64> : PlainElement<std::int64_t> {};
template <>
struct Element<DataType::u64> : PlainElement<std::uint64_t> {};
template <>
struct Element<DataType::boolean> : BooleanElement {};

template <class T>
T extreme(T a, T b, bool smallest) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
    if (a == b) return std::signbit(a) == smallest ? a : b;  // Decides between -0 and +0.
  }
  return (a < b) == smallest ? a : b;
}

template <class T>
T combine(T a, T b, ReduceOp op) {
  if (op == ReduceOp::min) return extreme(a, b, true);
  if (op == ReduceOp::max) return extreme(a, b, false);
  const bool product = op == ReduceOp::product;
  if constexpr (std::is_same_v<T, bool>) {
    return product ? a && b : a || b;
  } else if constexpr (std::is_integral_v<T>) {
    const auto x = static_cast<std::uint64_t>(a);
    const auto y = static_cast<std::uint64_t>(b);
    return static_cast<T>(product ? x * y : x + y);
  } else {
    return product ? a * b : a + b;
  }
}

template <DataType kType, ReduceOp kOp>
void reduce_one_by_one(void* out, const void* a, const void* b, std::size_t count) {
  using E = Element<kType>;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = i * E::kBytes;
    const auto left = E::load(static_cast<const char*>(a) + at);
    const auto right = E::load(static_cast<const char*>(b) + at);
    E::store(static_cast<char*>(out) + at, combine<typename E::Wide>(left, right, kOp));
  }
}

template <DataType kType>
void average_one_by_one(void* data, std::size_t count, std::int64_t divisor) {
  using E = Element<kType>;
  using Wide = typename E::Wide;
  for (std::size_t i = 0; i < count; ++i) {
    char* at = static_cast<char*>(data) + i * E::kBytes;
    const Wide value = E::load(at);
    if constexpr (std::is_same_v<Wide, bool>) {
      E::store(at, value);
    } else if constexpr (std::is_same_v<Wide, std::uint64_t>) {
      E::store(at, value / static_cast<std::uint64_t>(divisor));
    } else if constexpr (std::is_integral_v<Wide>) {
      E::store(at, static_cast<Wide>(static_cast<std::int64_t>(value) / divisor));
    } else {
      E::store(at, value / static_cast<Wide>(divisor));
    }
  }
}

template <DataType kType>
void widen_one_by_one(float* out, const void* in, std::size_t count) {
  using E = Element<kType>;
  for (std::size_t i = 0; i < count; ++i) out[i] = E::load(static_cast<const char*>(in) + i * E::kBytes);
}

template <DataType kType>
void narrow_one_by_one(void* out, const float* in, std::size_t count) {
  using E = Element<kType>;
  for (std::size_t i = 0; i < count; ++i) E::store(static_cast<char*>(out) + i * E::kBytes, in[i]);
}

template <DataType kType, ReduceOp kOp>
void accumulate_one_by_one(float* accumulator, const void* in, std::size_t count) {
  using E = Element<kType>;
  for (std::size_t i = 0; i < count; ++i) {
    accumulator[i] = combine<float>(accumulator[i], E::load(static_cast<const char*>(in) + i * E::kBytes), kOp);
  }
}

template <DataType kType>
constexpr ReduceRow row() {
  ReduceRow row{{&reduce_one_by_one<kType, ReduceOp::sum>, &reduce_one_by_one<kType, ReduceOp::product>,
                 &reduce_one_by_one<kType, ReduceOp::min>, &reduce_one_by_one<kType, ReduceOp::max>,
                 &reduce_one_by_one<kType, ReduceOp::sum>},
                &average_one_by_one<kType>,
                nullptr,
                nullptr,
                {}};
  if constexpr (kType == DataType::f32 || is_low_precision(kType)) {
    row.widen = &widen_one_by_one<kType>;
    row.narrow = &narrow_one_by_one<kType>;
    row.accumulate[0] = row.accumulate[4] = &accumulate_one_by_one<kType, ReduceOp::sum>;
    row.accumulate[1] = &accumulate_one_by_one<kType, ReduceOp::product>;
    row.accumulate[2] = &accumulate_one_by_one<kType, ReduceOp::min>;
    row.accumulate[3] = &accumulate_one_by_one<kType, ReduceOp::max>;
  }
  return row;
}

constexpr ReduceTable kTable = {{
    row<DataType::f64>(),
    row<DataType::f32>(),
    row<DataType::f16>(),
    row<DataType::bf16>(),
    row<DataType::f8_e4m3>(),
    row<DataType::f8_e5m2>(),
    row<DataType::i8>(),
    row<DataType::u8>(),
    row<DataType::i32>(),
    row<DataType::u32>(),
    row<DataType::i64>(),
    row<DataType::u64>(),
    row<DataType::boolean>(),
}};

}  // namespace

const ReduceTable& reduce_table() {
  return kTable;
}

}  // namespace trireme::kernels::reference
