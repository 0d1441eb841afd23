// Fixed-point sums against sums of exact rationals (128-bit integers), and in any order.
#include "collectives/execute/fixed_point.h"

#include <gtest/gtest.h>
#include <trireme/base/philox.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

namespace trireme::fixed_point {
namespace {

// The sum of one contribution per rank, as the collectives would make it.
template <class T, class Exponent>
T sum_of(const std::vector<T>& contributions, int lanes) {
  const int ranks = static_cast<int>(contributions.size());
  Exponent largest = 0;
  for (const T& value : contributions) {
    Exponent exponent = 0;
    exponents(&exponent, &value, 1);
    largest = std::max(largest, exponent);
  }
  std::vector<std::int64_t> total(static_cast<std::size_t>(lanes));
  for (const T& value : contributions) {
    std::int64_t parts[2] = {};
    encode(parts, &value, &largest, 1, ranks);
    for (int lane = 0; lane < lanes; ++lane) total[static_cast<std::size_t>(lane)] += parts[lane];
  }
  T result = 0;
  decode(&result, total.data(), &largest, 1, ranks);
  return result;
}
float sum_of(const std::vector<float>& contributions) {
  return sum_of<float, std::uint8_t>(contributions, 1);
}
double sum_of(const std::vector<double>& contributions) {
  return sum_of<double, std::int32_t>(contributions, 2);
}

TEST(FixedPoint, OneContributionIsItself) {
  for (const float value : {0.0f, 1.0f, -1.5f, 3.4028234e38f, -1.1754944e-38f, 1.4e-45f, -7e-42f, 1e-20f}) {
    EXPECT_EQ(sum_of(std::vector<float>{value}), value);
    EXPECT_EQ(sum_of(std::vector<float>{value, 0.0f, 0.0f}), value);
  }
  for (const double value : {0.0, 1.0, -1.5, 1.7976931348623157e308, -2.2250738585072014e-308, 4.9e-324, 1e-100}) {
    EXPECT_EQ(sum_of(std::vector<double>{value}), value);
    EXPECT_EQ(sum_of(std::vector<double>{0.0, value, 0.0}), value);
  }
}

// Numbers on a grid of 2^-20 below 2^20: their exact sum fits a 64-bit integer, and f32's
// rounding of it is known.
TEST(FixedPoint, SumsOfFloatsAreExactAndRoundedOnce) {
  const PhiloxKey key = make_philox_key(11, 1, 0);
  for (std::uint64_t draw = 0; draw < 20'000; ++draw) {
    std::vector<float> values;
    std::int64_t exact = 0;
    const std::uint64_t ranks = 1 + philox_below(key, draw, 0, 40);
    for (std::uint64_t rank = 0; rank < ranks; ++rank) {
      const auto digits = static_cast<std::int64_t>(philox_below(key, draw, 100 + 3 * rank, 1 << 24)) - (1 << 23);
      const auto shift = static_cast<int>(philox_below(key, draw, 101 + 3 * rank, 16));
      exact += digits << shift;
      values.push_back(std::ldexp(static_cast<float>(digits), shift - 20));
    }
    ASSERT_EQ(sum_of(values), std::ldexp(static_cast<float>(exact), -20)) << draw;
  }
}

template <class T>
void expect_any_order(std::uint64_t seed, int most_exponent) {
  const PhiloxKey key = make_philox_key(seed, 1, 0);
  for (std::uint64_t draw = 0; draw < 3000; ++draw) {
    std::vector<T> values;
    const std::uint64_t ranks = 2 + philox_below(key, draw, 0, 63);
    for (std::uint64_t rank = 0; rank < ranks; ++rank) {
      const int exponent =
          static_cast<int>(philox_below(key, draw, 200 + rank, static_cast<std::uint64_t>(2 * most_exponent)));
      values.push_back(std::ldexp(static_cast<T>(philox_normal(key, draw, rank + 1)), exponent - most_exponent));
    }
    const T first = sum_of(values);
    std::reverse(values.begin(), values.end());
    const T reversed = sum_of(values);
    ASSERT_EQ(std::memcmp(&first, &reversed, sizeof(T)), 0);
    std::sort(values.begin(), values.end());
    const T sorted = sum_of(values);
    ASSERT_EQ(std::memcmp(&first, &sorted, sizeof(T)), 0);
    // Close to a sum in long double, relative to the largest operand.
    long double exact = 0, largest = 0;
    for (const T value : values) {
      exact += static_cast<long double>(value);
      largest = std::max(largest, std::abs(static_cast<long double>(value)));
    }
    const long double unit = std::ldexp(1.0L, -std::numeric_limits<T>::digits);
    ASSERT_LE(std::abs(static_cast<long double>(first) - exact),
              std::abs(exact) * unit * 1.01L + largest * std::ldexp(1.0L, sizeof(T) == 4 ? -28 : -58));
  }
}

TEST(FixedPoint, TheOrderDoesNotMatter) {
  expect_any_order<float>(12, 60);
  expect_any_order<float>(13, 5);
  expect_any_order<double>(14, 500);
  expect_any_order<double>(15, 5);
}

TEST(FixedPoint, InfinitiesAndNansAsIeee754Says) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(sum_of(std::vector<float>{1, inf, 2}), inf);
  EXPECT_EQ(sum_of(std::vector<float>{-inf, 5, -inf}), -inf);
  EXPECT_TRUE(std::isnan(sum_of(std::vector<float>{inf, -inf})));
  EXPECT_TRUE(std::isnan(sum_of(std::vector<float>{1, nan, inf})));
  EXPECT_EQ(sum_of(std::vector<float>{3e38f, 3e38f}), inf);  // Past the largest.
  const double dinf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(sum_of(std::vector<double>{1, -dinf}), -dinf);
  EXPECT_TRUE(std::isnan(sum_of(std::vector<double>{dinf, -dinf, 1})));
  EXPECT_EQ(sum_of(std::vector<double>{1e308, 1e308}), dinf);
}

TEST(FixedPoint, ManyRanksDoNotOverflow) {
  const float most = std::numeric_limits<float>::max();
  std::vector<float> values(20'000, most);
  for (std::size_t i = 1; i < values.size(); i += 2) values[i] = -most;
  values.back() = 0;
  EXPECT_EQ(sum_of(values), most);
  std::vector<double> doubles(20'000, 1.0);
  EXPECT_EQ(sum_of(doubles), 20'000.0);
}

}  // namespace
}  // namespace trireme::fixed_point
