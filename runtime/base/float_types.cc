// One generic conversion serves the three small formats: it works on the value's bits,
// so that rounding, subnormals and specials are handled in one place.
#include <trireme/base/float_types.h>

#include <cmath>
#include <limits>

namespace trireme {
namespace {

struct Format {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;
};

constexpr Format kF16{5, 10, true};
constexpr Format kE4M3{4, 3, false};
constexpr Format kE5M2{5, 2, true};

float decode(std::uint32_t bits, Format format) {
  const std::uint32_t mantissa_mask = (1u << format.mantissa_bits) - 1;
  const std::uint32_t exponent_mask = (1u << format.exponent_bits) - 1;
  const std::uint32_t mantissa = bits & mantissa_mask;
  const std::uint32_t exponent = (bits >> format.mantissa_bits) & exponent_mask;
  const bool negative = (bits >> (format.mantissa_bits + format.exponent_bits)) & 1u;
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  float magnitude = 0;
  if (format.has_infinity && exponent == exponent_mask) {
    magnitude = mantissa == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  } else if (!format.has_infinity && exponent == exponent_mask && mantissa == mantissa_mask) {
    magnitude = std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(mantissa), 1 - bias - format.mantissa_bits);
  } else {
    magnitude = std::ldexp(static_cast<float>(mantissa | (1u << format.mantissa_bits)),
                           static_cast<int>(exponent) - bias - format.mantissa_bits);
  }
  return negative ? -magnitude : magnitude;
}

// Rounds `value` >> `shift` to nearest, ties to even. Shifts past the word give zero.
std::uint32_t round_shift(std::uint32_t value, int shift) {
  if (shift <= 0) return value << -shift;
  if (shift > 31) return 0;
  const std::uint32_t kept = value >> shift;
  const std::uint32_t rest = value & ((1u << shift) - 1);
  const std::uint32_t half = 1u << (shift - 1);
  return kept + ((rest > half || (rest == half && (kept & 1u))) ? 1 : 0);
}

std::uint32_t encode(float value, Format format) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const int width = format.mantissa_bits + format.exponent_bits;
  const std::uint32_t sign = (bits >> 31) << width;
  const std::uint32_t exponent_mask = (1u << format.exponent_bits) - 1;
  const std::uint32_t all_ones = (1u << width) - 1;
  const std::uint32_t infinity = exponent_mask << format.mantissa_bits;
  if (std::isnan(value)) return sign | (format.has_infinity ? infinity | (1u << (format.mantissa_bits - 1)) : all_ones);
  // The largest finite code is just below infinity, or just below the one NaN code.
  const std::uint32_t overflow = format.has_infinity ? infinity : all_ones - 1;
  if (std::isinf(value)) return sign | overflow;
  const int exponent = static_cast<int>((bits >> 23) & 0xff);
  if (exponent == 0) return sign;  // f32 subnormals are far below every small format's range.
  const std::uint32_t significand = (bits & 0x7fffffu) | 0x800000u;
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const int target = exponent - 127 + bias;
  const int drop = 23 - format.mantissa_bits;
  std::uint32_t code = 0;
  if (target <= 0) {
    code = round_shift(significand, drop + 1 - target);  // A carry makes the smallest normal.
  } else {
    // The leading one of the rounded significand carries into the exponent field.
    code = (static_cast<std::uint32_t>(target - 1) << format.mantissa_bits) + round_shift(significand, drop);
  }
  return sign | (code > overflow ? overflow : code);
}

}  // namespace

float f16_to_f32(std::uint16_t bits) {
  return decode(bits, kF16);
}
std::uint16_t f32_to_f16(float value) {
  return static_cast<std::uint16_t>(encode(value, kF16));
}
float f8_e4m3_to_f32(std::uint8_t bits) {
  return decode(bits, kE4M3);
}
std::uint8_t f32_to_f8_e4m3(float value) {
  return static_cast<std::uint8_t>(encode(value, kE4M3));
}
float f8_e5m2_to_f32(std::uint8_t bits) {
  return decode(bits, kE5M2);
}
std::uint8_t f32_to_f8_e5m2(float value) {
  return static_cast<std::uint8_t>(encode(value, kE5M2));
}

}  // namespace trireme
