#include "collectives/execute/fixed_point.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace trireme::fixed_point {
namespace {

__extension__ using Wide = __int128;

template <class T>
struct Format;
template <>
struct Format<float> {
  using Bits = std::uint32_t;
  using Exponent = std::uint8_t;
  using Fixed = std::int64_t;
  static constexpr int kMantissa = 23;
  static constexpr int kNotFinite = 255;
  static constexpr int kBias = 127;
  static constexpr int kRoom = 61;  // Bits below the sign, less one for the leading digit.
};
template <>
struct Format<double> {
  using Bits = std::uint64_t;
  using Exponent = std::int32_t;
  using Fixed = Wide;
  static constexpr int kMantissa = 52;
  static constexpr int kNotFinite = 2047;
  static constexpr int kBias = 1023;
  static constexpr int kRoom = 109;  // The high part holds 62 bits above the low one's 48.
};
constexpr int kLowBits = 48;

// What is not finite is counted: bits 0 on for +infinity, 20 on for -infinity, 40 on for NaN.
constexpr std::int64_t kInfinity = 1;
constexpr std::int64_t kMinusInfinity = std::int64_t{1} << 20;
constexpr std::int64_t kNan = std::int64_t{1} << 40;

int fraction_bits(int room, int ranks) {
  return room - std::bit_width(static_cast<unsigned>(ranks - 1));
}

template <class T>
int exponent_of(typename Format<T>::Bits bits) {
  const auto field = static_cast<int>((bits >> Format<T>::kMantissa) & Format<T>::kNotFinite);
  const bool zero = (bits << 1) == 0;
  return zero ? 0 : std::max(field, 1);
}

// value * 2^-shift, rounded to nearest even.
template <class Fixed>
Fixed shift_right(Fixed value, int shift) {
  if (shift > static_cast<int>(8 * sizeof(Fixed)) - 2) return 0;
  const Fixed kept = value >> shift;
  const Fixed rest = value - (kept << shift);
  const Fixed half = Fixed{1} << (shift - 1);
  return kept + ((rest > half || (rest == half && (kept & 1) != 0)) ? 1 : 0);
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

template <class T>
typename Format<T>::Fixed encode_one(T value, int largest, int fraction) {
  using F = Format<T>;
  using Fixed = typename F::Fixed;
  const auto bits = std::bit_cast<typename F::Bits>(value);
  const int exponent = exponent_of<T>(bits);
  const auto field = static_cast<int>((bits >> F::kMantissa) & F::kNotFinite);
  auto mantissa = static_cast<Fixed>(bits & ((typename F::Bits{1} << F::kMantissa) - 1));
  if (field > 0) mantissa += Fixed{1} << F::kMantissa;
  const int up = fraction - F::kMantissa - (largest - exponent);
  const Fixed magnitude = up >= 0 ? mantissa << up : shift_right(mantissa, -up);
  return (bits >> (8 * sizeof(T) - 1)) != 0 ? -magnitude : magnitude;
}

template <class T>
void fill_exponents(typename Format<T>::Exponent* out, const T* in, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = static_cast<typename Format<T>::Exponent>(exponent_of<T>(std::bit_cast<typename Format<T>::Bits>(in[i])));
  }
}

}  // namespace

void exponents(std::uint8_t* out, const float* in, std::size_t count) {
  fill_exponents<float>(out, in, count);
}

void exponents(std::int32_t* out, const double* in, std::size_t count) {
  fill_exponents<double>(out, in, count);
}

void encode(std::int64_t* out, const float* in, const std::uint8_t* largest, std::size_t count, int ranks) {
  const int fraction = fraction_bits(Format<float>::kRoom, ranks);
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = largest[i] == Format<float>::kNotFinite ? count_special(in[i]) : encode_one(in[i], largest[i], fraction);
  }
}

void encode(std::int64_t* out, const double* in, const std::int32_t* largest, std::size_t count, int ranks) {
  const int fraction = fraction_bits(Format<double>::kRoom, ranks);
  for (std::size_t i = 0; i < count; ++i) {
    if (largest[i] == Format<double>::kNotFinite) {
      out[2 * i] = 0;
      out[2 * i + 1] = count_special(in[i]);
      continue;
    }
    const Wide value = encode_one(in[i], largest[i], fraction);
    const Wide high = value >> kLowBits;
    out[2 * i] = static_cast<std::int64_t>(high);
    out[2 * i + 1] = static_cast<std::int64_t>(value - (high << kLowBits));
  }
}

void decode(float* out, const std::int64_t* in, const std::uint8_t* largest, std::size_t count, int ranks) {
  const int fraction = fraction_bits(Format<float>::kRoom, ranks);
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = largest[i] == Format<float>::kNotFinite
                 ? special_of<float>(in[i])
                 : std::ldexp(static_cast<float>(in[i]), largest[i] - Format<float>::kBias - fraction);
  }
}

void decode(double* out, const std::int64_t* in, const std::int32_t* largest, std::size_t count, int ranks) {
  const int fraction = fraction_bits(Format<double>::kRoom, ranks);
  for (std::size_t i = 0; i < count; ++i) {
    const Wide value = (static_cast<Wide>(in[2 * i]) << kLowBits) + in[2 * i + 1];
    out[i] = largest[i] == Format<double>::kNotFinite
                 ? special_of<double>(in[2 * i + 1])
                 : std::ldexp(static_cast<double>(value), largest[i] - Format<double>::kBias - fraction);
  }
}

}  // namespace trireme::fixed_point
