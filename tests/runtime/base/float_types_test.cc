// Conversions against an independent model: every code's value by the definition of the
// format in float64, and the nearest code by search among those values.
#include <trireme/base/float_types.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace trireme {
namespace {

struct Format {
  std::string name;
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;
  std::function<float(std::uint32_t)> decode;
  std::function<std::uint32_t(float)> encode;

  std::uint32_t sign_bit() const { return 1u << (exponent_bits + mantissa_bits); }
  // The code after the largest finite one: infinity, or E4M3's NaN.
  std::uint32_t first_special() const {
    const std::uint32_t infinity = ((1u << exponent_bits) - 1) << mantissa_bits;
    return has_infinity ? infinity : sign_bit() - 1;
  }
  // The value of a non-negative finite code. Also gives what the first special code
  // would be worth if it went on counting, which decides what overflows.
  double value(std::uint32_t code) const {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = static_cast<int>(code >> mantissa_bits);
    const double fraction = static_cast<double>(code & ((1u << mantissa_bits) - 1)) * std::exp2(-mantissa_bits);
    return exponent == 0 ? fraction * std::exp2(1 - bias) : (1 + fraction) * std::exp2(exponent - bias);
  }
};

std::vector<Format> formats() {
  return {{"f16", 5, 10, true, [](std::uint32_t c) { return f16_to_f32(static_cast<std::uint16_t>(c)); }, f32_to_f16},
          {"bf16", 8, 7, true, [](std::uint32_t c) { return bf16_to_f32(static_cast<std::uint16_t>(c)); }, f32_to_bf16},
          {"f8_e4m3", 4, 3, false, [](std::uint32_t c) { return f8_e4m3_to_f32(static_cast<std::uint8_t>(c)); },
           f32_to_f8_e4m3},
          {"f8_e5m2", 5, 2, true, [](std::uint32_t c) { return f8_e5m2_to_f32(static_cast<std::uint8_t>(c)); },
           f32_to_f8_e5m2}};
}

// Nearest, ties to even, by search.
class Reference {
 public:
  explicit Reference(const Format& format) : format_(format) {
    for (std::uint32_t code = 0; code <= format.first_special(); ++code) values_.push_back(format.value(code));
  }

  std::uint32_t encode(float x) const {
    const std::uint32_t sign = std::signbit(x) ? format_.sign_bit() : 0;
    const double magnitude = std::fabs(static_cast<double>(x));
    const auto above = std::lower_bound(values_.begin(), values_.end(), magnitude);
    std::uint32_t code = static_cast<std::uint32_t>(above - values_.begin());
    if (above == values_.end()) {
      code = format_.first_special();
    } else if (code > 0 && *above != magnitude) {
      const double up = *above - magnitude;
      const double down = magnitude - *(above - 1);
      if (down < up || (down == up && code % 2 == 1)) --code;
    }
    if (!format_.has_infinity) code = std::min(code, format_.first_special() - 1);
    return sign | code;
  }

  const std::vector<double>& values() const { return values_; }

 private:
  const Format& format_;
  std::vector<double> values_;
};

TEST(FloatTypes, EveryCodeDecodesToTheValueOfItsDefinition) {
  for (const Format& format : formats()) {
    for (std::uint32_t code = 0; code < 2 * format.sign_bit(); ++code) {
      const std::uint32_t magnitude = code & (format.sign_bit() - 1);
      const float decoded = format.decode(code);
      ASSERT_EQ(std::signbit(decoded), code >= format.sign_bit()) << format.name << " code " << code;
      if (magnitude < format.first_special()) {
        ASSERT_EQ(std::fabs(static_cast<double>(decoded)), format.value(magnitude)) << format.name << " code " << code;
      } else if (format.has_infinity && magnitude == format.first_special()) {
        ASSERT_TRUE(std::isinf(decoded)) << format.name << " code " << code;
      } else {
        ASSERT_TRUE(std::isnan(decoded)) << format.name << " code " << code;
      }
    }
  }
}

TEST(FloatTypes, EveryCodeSurvivesTheRoundTrip) {
  for (const Format& format : formats()) {
    for (std::uint32_t code = 0; code < 2 * format.sign_bit(); ++code) {
      const float decoded = format.decode(code);
      const std::uint32_t again = format.encode(decoded);
      if (std::isnan(decoded)) {
        ASSERT_TRUE(std::isnan(format.decode(again))) << format.name << " code " << code;
      } else {
        ASSERT_EQ(again, code) << format.name;
      }
    }
  }
}

// Each code, each midpoint between neighbours (the ties), and the f32 on either side.
TEST(FloatTypes, RoundsToNearestEvenAtAndAroundEveryTie) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const Format& format : formats()) {
    const Reference reference(format);
    const std::vector<double>& values = reference.values();
    for (std::size_t i = 0; i + 1 < values.size(); ++i) {
      for (double point : {values[i], (values[i] + values[i + 1]) / 2}) {
        const auto center = static_cast<float>(point);
        for (float x : {center, std::nextafter(center, kInfinity), std::nextafter(center, -kInfinity)}) {
          if (std::isinf(x)) continue;
          ASSERT_EQ(format.encode(x), reference.encode(x)) << format.name << " of " << x;
          ASSERT_EQ(format.encode(-x), reference.encode(-x)) << format.name << " of " << -x;
        }
      }
    }
  }
}

TEST(FloatTypes, RoundsRandomNumbersOfEveryMagnitudeToNearestEven) {
  std::mt19937 random(20240229);
  for (const Format& format : formats()) {
    const Reference reference(format);
    for (int i = 0; i < 200'000; ++i) {
      const float x = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
      if (std::isnan(x) || std::isinf(x)) continue;
      ASSERT_EQ(format.encode(x), reference.encode(x)) << format.name << " of " << x;
    }
  }
}

TEST(FloatTypes, SpecialsAndOverflowFollowEachFormat) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kMax = std::numeric_limits<float>::max();
  for (const Format& format : formats()) {
    const std::uint32_t overflow = format.has_infinity ? format.first_special() : format.first_special() - 1;
    for (float x : {kInfinity, kMax}) {
      EXPECT_EQ(format.encode(x), overflow) << format.name << " of " << x;
      EXPECT_EQ(format.encode(-x), format.sign_bit() | overflow) << format.name << " of " << -x;
    }
    // NaNs with any payload, also one that lives only in the bits that are dropped.
    for (std::uint32_t bits : {0x7fc00000u, 0x7f800001u, 0x7fffffffu, 0xffc00000u, 0xff800001u}) {
      const float nan = std::bit_cast<float>(bits);
      EXPECT_TRUE(std::isnan(format.decode(format.encode(nan)))) << format.name << " of NaN " << std::hex << bits;
    }
    EXPECT_EQ(format.encode(0.0f), 0u);
    EXPECT_EQ(format.encode(-0.0f), format.sign_bit());
  }
  EXPECT_EQ(f8_e4m3_to_f32(f32_to_f8_e4m3(1e9f)), 448.0f);
  EXPECT_EQ(f8_e5m2_to_f32(0x7b), 57344.0f);
  EXPECT_EQ(f16_to_f32(0x7bff), 65504.0f);
}

TEST(FloatTypes, Bf16IsUsableInConstantExpressions) {
  static_assert(f32_to_bf16(1.0f) == 0x3f80);
  static_assert(bf16_to_f32(0xc000) == -2.0f);
  EXPECT_EQ(f32_to_bf16(1.00390625f), 0x3f80);  // A tie: 1 + 2^-8 goes to the even code below.
  EXPECT_EQ(f32_to_bf16(1.01171875f), 0x3f82);  // A tie: 1 + 3 * 2^-8 goes to the even code above.
}

}  // namespace
}  // namespace trireme
