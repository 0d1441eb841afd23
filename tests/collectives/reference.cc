#include "tests/collectives/reference.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include <trireme/base/float_types.h>

namespace trireme::test {
namespace {

template <typename T>
T get(const std::byte* data, std::size_t index) {
  T value;
  std::memcpy(&value, data + index * sizeof(T), sizeof value);
  return value;
}

template <typename T>
void put(std::byte* data, std::size_t index, T value) {
  std::memcpy(data + index * sizeof(T), &value, sizeof value);
}

bool is_signed(DataType type) {
  return is_floating_point(type) || type == DataType::i8 || type == DataType::i32 || type == DataType::i64;
}

}  // namespace

double load(DataType type, const std::byte* data, std::size_t index) {
  switch (type) {
    case DataType::f64:
      return get<double>(data, index);
    case DataType::f32:
      return get<float>(data, index);
    case DataType::f16:
      return f16_to_f32(get<std::uint16_t>(data, index));
    case DataType::bf16:
      return bf16_to_f32(get<std::uint16_t>(data, index));
    case DataType::f8_e4m3:
      return f8_e4m3_to_f32(get<std::uint8_t>(data, index));
    case DataType::f8_e5m2:
      return f8_e5m2_to_f32(get<std::uint8_t>(data, index));
    case DataType::i8:
      return get<std::int8_t>(data, index);
    case DataType::u8:
      return get<std::uint8_t>(data, index);
    case DataType::i32:
      return get<std::int32_t>(data, index);
    case DataType::u32:
      return get<std::uint32_t>(data, index);
    case DataType::i64:
      return static_cast<double>(get<std::int64_t>(data, index));
    case DataType::u64:
      return static_cast<double>(get<std::uint64_t>(data, index));
    case DataType::boolean:
      return get<std::uint8_t>(data, index) != 0;
  }
  return 0;
}

void store(DataType type, std::byte* data, std::size_t index, double value) {
  const auto whole = is_floating_point(type) ? 0 : static_cast<std::int64_t>(value);
  switch (type) {
    case DataType::f64:
      return put(data, index, value);
    case DataType::f32:
      return put(data, index, static_cast<float>(value));
    case DataType::f16:
      return put(data, index, f32_to_f16(static_cast<float>(value)));
    case DataType::bf16:
      return put(data, index, f32_to_bf16(static_cast<float>(value)));
    case DataType::f8_e4m3:
      return put(data, index, f32_to_f8_e4m3(static_cast<float>(value)));
    case DataType::f8_e5m2:
      return put(data, index, f32_to_f8_e5m2(static_cast<float>(value)));
    case DataType::i8:
      return put(data, index, static_cast<std::int8_t>(whole));
    case DataType::u8:
      return put(data, index, static_cast<std::uint8_t>(whole));
    case DataType::i32:
      return put(data, index, static_cast<std::int32_t>(whole));
    case DataType::u32:
      return put(data, index, static_cast<std::uint32_t>(whole));
    case DataType::i64:
      return put(data, index, whole);
    case DataType::u64:
      return put(data, index, static_cast<std::uint64_t>(whole));
    case DataType::boolean:
      return put(data, index, static_cast<std::uint8_t>(whole != 0));
  }
}

double rounded(DataType type, double value) {
  std::byte bytes[8];
  store(type, bytes, 0, value);
  return load(type, bytes, 0);
}

double input_value(DataType type, ReduceOp op, int rank, std::size_t index) {
  const std::size_t mixed = index * 5 + static_cast<std::size_t>(rank) * 3 + index / 7;
  if (type == DataType::boolean) return (mixed % 3) == 0;
  if (op == ReduceOp::product) return mixed % 4 == 1 ? 2 : (mixed % 4 == 2 && is_signed(type) ? -1 : 1);
  const double value = static_cast<double>(mixed % 7);
  return is_signed(type) ? value - 3 : value;
}

double reduced_value(DataType type, ReduceOp op, int ranks, std::size_t index) {
  double result = input_value(type, op, 0, index);
  for (int rank = 1; rank < ranks; ++rank) {
    const double value = input_value(type, op, rank, index);
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::average:
        result = type == DataType::boolean ? std::max(result, value) : result + value;
        break;
      case ReduceOp::product:
        result *= value;
        break;
      case ReduceOp::min:
        result = std::min(result, value);
        break;
      case ReduceOp::max:
        result = std::max(result, value);
        break;
    }
  }
  if (op == ReduceOp::average && type != DataType::boolean) {
    if (type == DataType::f64) {
      result /= ranks;
    } else if (is_floating_point(type)) {
      result = static_cast<float>(result) / static_cast<float>(ranks);
    } else {
      result = std::trunc(rounded(type, result) / ranks);
    }
  }
  return rounded(type, result);
}

std::vector<std::byte> make_input(DataType type, ReduceOp op, int rank, std::size_t count, std::size_t first) {
  std::vector<std::byte> data(count * size_of(type));
  for (std::size_t i = 0; i < count; ++i) store(type, data.data(), i, input_value(type, op, rank, first + i));
  return data;
}

std::string compare_reduced(DataType type, ReduceOp op, int ranks, const std::byte* got, std::size_t count,
                            std::size_t first) {
  for (std::size_t i = 0; i < count; ++i) {
    const double expected = reduced_value(type, op, ranks, first + i);
    const double value = load(type, got, i);
    if (value != expected) {
      return "element " + std::to_string(first + i) + ": " + std::to_string(value) + ", expected " +
             std::to_string(expected);
    }
  }
  return "";
}

std::string compare_copied(DataType type, ReduceOp op, int rank, const std::byte* got, std::size_t count,
                           std::size_t first) {
  for (std::size_t i = 0; i < count; ++i) {
    const double expected = input_value(type, op, rank, first + i);
    const double value = load(type, got, i);
    if (value != expected) {
      return "element " + std::to_string(first + i) + " of rank " + std::to_string(rank) + ": " +
             std::to_string(value) + ", expected " + std::to_string(expected);
    }
  }
  return "";
}

}  // namespace trireme::test
