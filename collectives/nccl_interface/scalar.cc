#include "collectives/nccl_interface/scalar.h"

#include <cstdint>
#include <cstring>

#include <fmt/core.h>
#include <trireme/base/float_types.h>

namespace trireme::nccl {
namespace {

constexpr std::int64_t kExact = std::int64_t{1} << 53;

template <typename T>
T load(const void* element) {
  T value{};
  std::memcpy(&value, element, sizeof value);
  return value;
}

Outcome exact(bool fits, const std::string& text, double as_double, double& value) {
  value = as_double;
  if (fits) return {};
  return bad_argument(fmt::format("the scalar {} cannot be served: integer factors up to 2^53 are", text));
}

}  // namespace

Outcome scalar_value(const void* element, DataType type, double& value) {
  switch (type) {
    case DataType::f64:
      value = load<double>(element);
      break;
    case DataType::f32:
      value = load<float>(element);
      break;
    case DataType::f16:
      value = f16_to_f32(load<std::uint16_t>(element));
      break;
    case DataType::bf16:
      value = bf16_to_f32(load<std::uint16_t>(element));
      break;
    case DataType::f8_e4m3:
      value = f8_e4m3_to_f32(load<std::uint8_t>(element));
      break;
    case DataType::f8_e5m2:
      value = f8_e5m2_to_f32(load<std::uint8_t>(element));
      break;
    case DataType::i8:
      value = load<std::int8_t>(element);
      break;
    case DataType::u8:
    case DataType::boolean:
      value = load<std::uint8_t>(element);
      break;
    case DataType::i32:
      value = load<std::int32_t>(element);
      break;
    case DataType::u32:
      value = load<std::uint32_t>(element);
      break;
    case DataType::i64: {
      const auto whole = load<std::int64_t>(element);
      return exact(whole >= -kExact && whole <= kExact, fmt::format("{}", whole), static_cast<double>(whole), value);
    }
    case DataType::u64: {
      const auto whole = load<std::uint64_t>(element);
      return exact(whole <= static_cast<std::uint64_t>(kExact), fmt::format("{}", whole), static_cast<double>(whole),
                   value);
    }
  }
  return {};
}

}  // namespace trireme::nccl
