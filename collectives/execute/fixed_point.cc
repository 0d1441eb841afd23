#include "collectives/execute/fixed_point.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace trireme::fixed_point {
namespace {

__extension__ using Wide = __int128;

// Of the fixed-point number, bits below the leading digit of the largest contribution.
constexpr int kFloatBits = 61;    // And n ranks' sum within 63 bits.
constexpr int kDoubleBits = 109;  // The high part holds what is above the low one's 48.
constexpr int kLowBits = 48;
constexpr int kFloatBias = 127;
constexpr int kDoubleBias = 1023;
constexpr std::uint8_t kFloatNotFinite = 255;
constexpr std::int32_t kDoubleNotFinite = 2047;
constexpr int kDoubleMantissa = 52;

// What is not finite is counted: bits 0 on for +infinity, 20 on for -infinity, 40 on for NaN.
constexpr std::int64_t kInfinity = 1;
constexpr std::int64_t kMinusInfinity = std::int64_t{1} << 20;
constexpr std::int64_t kNan = std::int64_t{1} << 40;

int fraction_bits(int bits, int ranks) {
  return bits - std::bit_width(static_cast<unsigned>(ranks - 1));
}

template <class T>
std::int64_t count_special(T value) {
  if (std::isnan(value)) return kNan;
  if (std::isinf(value)) return value > 0 ? kInfinity : kMinusInfinity;
  return 0;
}

template <class T>
T special_of(std::int64_t counts) {
  const bool plus = (counts & (kMinusInfinity - 1)) != 0;
  const bool minus = ((counts >> 20) & (kMinusInfinity - 1)) != 0;
  if (counts >= kNan || (plus && minus)) return std::numeric_limits<T>::quiet_NaN();
  return plus ? std::numeric_limits<T>::infinity() : -std::numeric_limits<T>::infinity();
}

// 2^exponent. REQUIRES: a normal f64.
double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(kDoubleBias + exponent) << kDoubleMantissa);
}

// To nearest even, of a number of 24 significant bits: from 2^51 on it is whole already.
std::int64_t rounded(double value) {
  constexpr double kWhole = 6755399441055744.0;  // 1.5 * 2^52: adding it drops the fraction.
  const double near = (value + kWhole) - kWhole;
  return static_cast<std::int64_t>(std::abs(value) < 2251799813685248.0 ? near : value);
}

// value * 2^-shift, rounded to nearest even. REQUIRES: value >= 0, shift > 0.
Wide shift_right(Wide value, int shift) {
  if (shift > 126) return 0;
  const Wide kept = value >> shift;
  const Wide rest = value - (kept << shift);
  const Wide half = Wide{1} << (shift - 1);
  return kept + ((rest > half || (rest == half && (kept & 1) != 0)) ? 1 : 0);
}

std::int32_t exponent_of(std::uint64_t bits) {
  const auto field = static_cast<std::int32_t>((bits >> kDoubleMantissa) & kDoubleNotFinite);
  return (bits << 1) == 0 ? 0 : std::max(field, 1);
}

Wide encode_double(double value, std::int32_t largest, int fraction) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  auto mantissa = static_cast<Wide>(bits & ((std::uint64_t{1} << kDoubleMantissa) - 1));
  if (((bits >> kDoubleMantissa) & kDoubleNotFinite) != 0) mantissa += Wide{1} << kDoubleMantissa;
  const int up = fraction - kDoubleMantissa - (largest - exponent_of(bits));
  const Wide magnitude = up >= 0 ? mantissa << up : shift_right(mantissa, -up);
  return (bits >> 63) != 0 ? -magnitude : magnitude;
}

}  // namespace

void exponents(std::uint8_t* out, const float* in, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto magnitude = std::bit_cast<std::uint32_t>(in[i]) << 1;
    const std::uint32_t field = magnitude >> 24;
    out[i] = static_cast<std::uint8_t>(field | ((magnitude != 0) & (field == 0)));
  }
}

void exponents(std::int32_t* out, const double* in, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) out[i] = exponent_of(std::bit_cast<std::uint64_t>(in[i]));
}

void encode(std::int64_t* out, const float* in, const std::uint8_t* largest, std::size_t count, int ranks) {
  const int fraction = fraction_bits(kFloatBits, ranks);
  for (std::size_t i = 0; i < count; ++i) {
    // The product is exact: a power of two, within f64's range.
    out[i] = largest[i] == kFloatNotFinite
                 ? count_special(in[i])
                 : rounded(static_cast<double>(in[i]) * power_of_two(fraction + kFloatBias - largest[i]));
  }
}

void encode(std::int64_t* out, const double* in, const std::int32_t* largest, std::size_t count, int ranks) {
  const int fraction = fraction_bits(kDoubleBits, ranks);
  for (std::size_t i = 0; i < count; ++i) {
    if (largest[i] == kDoubleNotFinite) {
      out[2 * i] = 0;
      out[2 * i + 1] = count_special(in[i]);
      continue;
    }
    const Wide value = encode_double(in[i], largest[i], fraction);
    const Wide high = value >> kLowBits;
    out[2 * i] = static_cast<std::int64_t>(high);
    out[2 * i + 1] = static_cast<std::int64_t>(value - (high << kLowBits));
  }
}

void decode(float* out, const std::int64_t* in, const std::uint8_t* largest, std::size_t count, int ranks) {
  const int fraction = fraction_bits(kFloatBits, ranks);
  for (std::size_t i = 0; i < count; ++i) {
    if (largest[i] == kFloatNotFinite) {
      out[i] = special_of<float>(in[i]);
      continue;
    }
    // Rounded to 24 bits here; scaling is exact but for what is subnormal or too large.
    const double digits = static_cast<float>(in[i]);
    const double value = digits * power_of_two(largest[i] - kFloatBias - fraction);
    const bool fits = std::abs(value) <= static_cast<double>(std::numeric_limits<float>::max());
    out[i] = fits ? static_cast<float>(value)
                  : std::copysign(std::numeric_limits<float>::infinity(), in[i] < 0 ? -1.0f : 1.0f);
  }
}

void decode(double* out, const std::int64_t* in, const std::int32_t* largest, std::size_t count, int ranks) {
  const int fraction = fraction_bits(kDoubleBits, ranks);
  for (std::size_t i = 0; i < count; ++i) {
    // The low parts are not negative; the high one is multiplied, not shifted, as it may be.
    const Wide value = static_cast<Wide>(in[2 * i]) * (Wide{1} << kLowBits) + in[2 * i + 1];
    out[i] = largest[i] == kDoubleNotFinite
                 ? special_of<double>(in[2 * i + 1])
                 : std::ldexp(static_cast<double>(value), largest[i] - kDoubleBias - fraction);
  }
}

}  // namespace trireme::fixed_point
