#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <trireme/base/float_types.h>
#include <trireme/kernels/reduce.h>

#include "kernels/cpu/reference/reduce.h"
#include "kernels/cpu/simd/simd_set.h"
#include "tests/kernels/kernel_test_data.h"

namespace trireme::kernels {
namespace {

struct NamedTable {
  const char* name;
  const ReduceTable* table;
};

std::vector<NamedTable> tables() {
  return {{"reference", &reference::reduce_table()},
          {"baseline", simd_baseline().reduce},
          {"best", simd().reduce},
          {"active", active_kernels().reduce()}};
}

std::vector<unsigned char> random_bytes(std::size_t count, std::uint32_t stream) {
  std::vector<unsigned char> bytes(count);
  const PhiloxKey key = make_philox_key(1, 2, stream);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<unsigned char>(philox_below(key, 0, i, 256));
  return bytes;
}

std::uint64_t load_unsigned(const unsigned char* at, std::size_t bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, at, bytes);
  return value;
}

// The element's bits as a number, by the definition of the type.
double decode(DataType type, std::uint64_t bits) {
  switch (type) {
    case DataType::f64:
      return std::bit_cast<double>(bits);
    case DataType::f32:
      return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    case DataType::f16:
      return static_cast<double>(f16_to_f32(static_cast<std::uint16_t>(bits)));
    case DataType::bf16:
      return static_cast<double>(bf16_to_f32(static_cast<std::uint16_t>(bits)));
    case DataType::f8_e4m3:
      return static_cast<double>(f8_e4m3_to_f32(static_cast<std::uint8_t>(bits)));
    default:
      return static_cast<double>(f8_e5m2_to_f32(static_cast<std::uint8_t>(bits)));
  }
}

std::uint64_t encode(DataType type, double value) {
  const auto narrow = static_cast<float>(value);
  switch (type) {
    case DataType::f64:
      return std::bit_cast<std::uint64_t>(value);
    case DataType::f32:
      return std::bit_cast<std::uint32_t>(narrow);
    case DataType::f16:
      return f32_to_f16(narrow);
    case DataType::bf16:
      return f32_to_bf16(narrow);
    case DataType::f8_e4m3:
      return f32_to_f8_e4m3(narrow);
    default:
      return f32_to_f8_e5m2(narrow);
  }
}

double expected_float(double a, double b, ReduceOp op, bool in_f64) {
  if (op == ReduceOp::sum || op == ReduceOp::average) {
    return in_f64 ? a + b : static_cast<double>(static_cast<float>(a) + static_cast<float>(b));
  }
  if (op == ReduceOp::product)
    return in_f64 ? a * b : static_cast<double>(static_cast<float>(a) * static_cast<float>(b));
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  if (a == 0 && b == 0) return std::signbit(a) == (op == ReduceOp::min) ? a : b;
  return op == ReduceOp::min ? std::fmin(a, b) : std::fmax(a, b);
}

std::int64_t sign_extend(std::uint64_t bits, std::size_t bytes) {
  const int shift = 64 - 8 * static_cast<int>(bytes);
  return static_cast<std::int64_t>(bits << shift) >> shift;
}

std::uint64_t expected_integer(DataType type, std::uint64_t a, std::uint64_t b, ReduceOp op) {
  if (type == DataType::boolean) {
    const bool either = op == ReduceOp::sum || op == ReduceOp::max || op == ReduceOp::average;
    return either ? (a != 0 || b != 0) : (a != 0 && b != 0);
  }
  if (op == ReduceOp::sum || op == ReduceOp::average) return a + b;
  if (op == ReduceOp::product) return a * b;
  const bool is_signed = type == DataType::i8 || type == DataType::i32 || type == DataType::i64;
  const std::size_t bytes = size_of(type);
  const bool less = is_signed ? sign_extend(a, bytes) < sign_extend(b, bytes) : a < b;
  return less == (op == ReduceOp::min) ? a : b;
}

std::uint64_t mask(DataType type) {
  return ~std::uint64_t{0} >> (64 - 8 * size_of(type));
}

void expect_element(DataType type, ReduceOp op, std::uint64_t a, std::uint64_t b, std::uint64_t actual,
                    const std::string& what) {
  if (!is_floating_point(type)) {
    ASSERT_EQ(actual, expected_integer(type, a, b, op) & mask(type)) << what;
    return;
  }
  const double expected = expected_float(decode(type, a), decode(type, b), op, type == DataType::f64);
  if (std::isnan(expected)) {
    ASSERT_TRUE(std::isnan(decode(type, actual))) << what;
  } else {
    ASSERT_EQ(actual, encode(type, expected)) << what << ": " << decode(type, a) << " and " << decode(type, b);
  }
}

void check_cell(const NamedTable& named, DataType type, ReduceOp op, std::size_t count, bool in_place) {
  const std::size_t width = size_of(type);
  const std::vector<unsigned char> a = random_bytes(count * width, 1);
  const std::vector<unsigned char> b = random_bytes(count * width, 2);
  // One element of offset: kernels need the alignment of an element only.
  std::vector<unsigned char> out(count * width + width, 0xee);
  if (in_place) std::copy(a.begin(), a.end(), out.begin() + static_cast<std::ptrdiff_t>(width));
  unsigned char* result = out.data() + width;
  const ReduceRow& row = named.table->row[static_cast<std::size_t>(type)];
  row.reduce[static_cast<std::size_t>(op)](result, in_place ? result : a.data(), b.data(), count);
  for (std::size_t i = 0; i < count; ++i) {
    expect_element(type, op, load_unsigned(&a[i * width], width), load_unsigned(&b[i * width], width),
                   load_unsigned(result + i * width, width),
                   std::string(named.name) + " " + std::string(to_string(type)) + " " + std::string(to_string(op)));
    if (::testing::Test::HasFatalFailure()) return;
  }
  for (std::size_t i = 0; i < width; ++i) ASSERT_EQ(out[i], 0xee) << "wrote before its output";
}

TEST(Reduce, EveryTypeAndOperationOnRandomBits) {
  for (const NamedTable& named : tables()) {
    for (int type = 0; type < kDataTypeCount; ++type) {
      for (int op = 0; op < kReduceOpCount; ++op) {
        for (std::size_t count : {0u, 1u, 3u, 17u, 65u, 1000u}) {
          for (bool in_place : {false, true}) {
            check_cell(named, static_cast<DataType>(type), static_cast<ReduceOp>(op), count, in_place);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

TEST(Reduce, MinAndMaxDoNotDependOnTheOrderOfOperands) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> special = {0.0f, -0.0f, 1.0f, -1.0f, infinity, -infinity, nan, 1e-45f};
  std::vector<float> a, b;
  for (float x : special) {
    for (float y : special) {
      a.push_back(x);
      b.push_back(y);
    }
  }
  for (const NamedTable& named : tables()) {
    for (ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
      const auto function = named.table->row[static_cast<int>(DataType::f32)].reduce[static_cast<int>(op)];
      std::vector<float> ab(a.size()), ba(a.size());
      function(ab.data(), a.data(), b.data(), a.size());
      function(ba.data(), b.data(), a.data(), a.size());
      EXPECT_EQ(std::memcmp(ab.data(), ba.data(), ab.size() * sizeof(float)), 0) << named.name;
      for (std::size_t i = 0; i < a.size(); ++i) {
        EXPECT_EQ(std::isnan(ab[i]), std::isnan(a[i]) || std::isnan(b[i])) << named.name << " " << a[i] << " " << b[i];
      }
      const float signed_zero = op == ReduceOp::min ? -0.0f : 0.0f;
      EXPECT_EQ(std::signbit(ab[1]), std::signbit(signed_zero)) << named.name;
    }
  }
}

TEST(Reduce, WidenAndNarrowAgreeWithTheDefinitionForEveryCode) {
  for (const NamedTable& named : tables()) {
    for (DataType type : {DataType::f16, DataType::bf16, DataType::f8_e4m3, DataType::f8_e5m2}) {
      const ReduceRow& row = named.table->row[static_cast<int>(type)];
      const std::size_t width = size_of(type);
      const std::size_t count = std::size_t{1} << (8 * width);
      std::vector<unsigned char> codes(count * width), again(count * width);
      for (std::size_t i = 0; i < count; ++i) std::memcpy(&codes[i * width], &i, width);
      std::vector<float> values(count);
      row.widen(values.data(), codes.data(), count);
      row.narrow(again.data(), values.data(), count);
      for (std::size_t i = 0; i < count; ++i) {
        const double expected = decode(type, i);
        if (std::isnan(expected)) {
          ASSERT_TRUE(std::isnan(values[i])) << named.name << " " << to_string(type) << " code " << i;
          ASSERT_TRUE(std::isnan(decode(type, load_unsigned(&again[i * width], width))));
        } else {
          ASSERT_EQ(std::bit_cast<std::uint32_t>(values[i]), std::bit_cast<std::uint32_t>(static_cast<float>(expected)))
              << named.name << " " << to_string(type) << " code " << i;
          ASSERT_EQ(load_unsigned(&again[i * width], width), i) << named.name << " " << to_string(type);
        }
      }
    }
  }
}

// Random f32 bits, and the neighbourhood of every halfway point between two f16 codes.
std::vector<float> values_to_round() {
  std::vector<float> values;
  const PhiloxKey key = make_philox_key(3, 4, 5);
  for (std::uint64_t i = 0; i < 100000; ++i) {
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(philox_below(key, 0, i, std::uint64_t{1} << 32))));
  }
  for (std::uint32_t code = 0; code < 0x7c00; code += 7) {
    const float low = f16_to_f32(static_cast<std::uint16_t>(code));
    const float high = f16_to_f32(static_cast<std::uint16_t>(code + 1));
    const float half = std::isinf(high) ? 65520.0f : low + (high - low) / 2;
    for (float value : {half, std::nextafter(half, 0.0f), std::nextafter(half, 1e9f)}) {
      values.push_back(value);
      values.push_back(-value);
    }
  }
  for (float value : {464.0f, 463.9f, 448.0f, 449.0f, 480.0f, 512.0f, 61440.0f, 61439.0f, 1e-40f, 0.0f, -0.0f}) {
    values.push_back(value);
  }
  return values;
}

TEST(Reduce, NarrowRoundsAsTheDefinition) {
  const std::vector<float> values = values_to_round();
  for (const NamedTable& named : tables()) {
    for (DataType type : {DataType::f32, DataType::f16, DataType::bf16, DataType::f8_e4m3, DataType::f8_e5m2}) {
      const std::size_t width = size_of(type);
      std::vector<unsigned char> codes(values.size() * width);
      named.table->row[static_cast<int>(type)].narrow(codes.data(), values.data(), values.size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (std::isnan(values[i])) continue;
        ASSERT_EQ(load_unsigned(&codes[i * width], width), encode(type, static_cast<double>(values[i])))
            << named.name << " " << to_string(type) << " of " << values[i];
      }
    }
  }
}

TEST(Reduce, AccumulateWideKeepsPartialSumsInF32) {
  // 1 + 2^-9 added 512 times in bf16 stays 1; carried wide it arrives at 2.
  std::vector<float> sum(17, 1.0f);
  const std::vector<std::uint16_t> small(17, f32_to_bf16(0x1p-9f));
  for (int i = 0; i < 512; ++i) accumulate_wide(sum.data(), small.data(), sum.size(), DataType::bf16, ReduceOp::sum);
  for (float value : sum) EXPECT_EQ(value, 2.0f);
  for (const NamedTable& named : tables()) {
    const std::vector<float> start = testing::random_normal(65, 1);
    const std::vector<float> other = testing::random_normal(65, 2);
    std::vector<std::uint16_t> codes(other.size());
    for (std::size_t i = 0; i < other.size(); ++i) codes[i] = f32_to_f16(other[i]);
    for (int op = 0; op < kReduceOpCount; ++op) {
      std::vector<float> result = start;
      named.table->row[static_cast<int>(DataType::f16)].accumulate[op](result.data(), codes.data(), codes.size());
      for (std::size_t i = 0; i < result.size(); ++i) {
        const double expected = expected_float(static_cast<double>(start[i]), static_cast<double>(f16_to_f32(codes[i])),
                                               static_cast<ReduceOp>(op), false);
        ASSERT_EQ(static_cast<double>(result[i]), expected) << named.name;
      }
    }
  }
}

TEST(Reduce, AverageDividesOnceAndRoundsIntegersTowardsZero) {
  for (const NamedTable& named : tables()) {
    std::int8_t bytes[3] = {-7, 7, -128};
    named.table->row[static_cast<int>(DataType::i8)].average(bytes, 3, 3);
    EXPECT_EQ(bytes[0], -2);
    EXPECT_EQ(bytes[1], 2);
    EXPECT_EQ(bytes[2], -42);
    std::uint8_t small[1] = {255};
    named.table->row[static_cast<int>(DataType::u8)].average(small, 1, 300);
    EXPECT_EQ(small[0], 0);
    std::uint64_t large[1] = {~std::uint64_t{0}};
    named.table->row[static_cast<int>(DataType::u64)].average(large, 1, 2);
    EXPECT_EQ(large[0], ~std::uint64_t{0} / 2);
    std::uint16_t half[1] = {f32_to_f16(10.0f)};
    named.table->row[static_cast<int>(DataType::f16)].average(half, 1, 3);
    EXPECT_EQ(half[0], f32_to_f16(10.0f / 3.0f));
    double wide[2] = {1.0, -5.0};
    named.table->row[static_cast<int>(DataType::f64)].average(wide, 2, 7);
    EXPECT_EQ(wide[0], 1.0 / 7.0);
    EXPECT_EQ(wide[1], -5.0 / 7.0);
    std::uint8_t flag[2] = {1, 0};
    named.table->row[static_cast<int>(DataType::boolean)].average(flag, 2, 4);
    EXPECT_EQ(flag[0], 1);
    EXPECT_EQ(flag[1], 0);
  }
}

}  // namespace
}  // namespace trireme::kernels
