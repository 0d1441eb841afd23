#include <trireme/base/philox.h>

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <set>

namespace trireme {
namespace {

using Block = std::array<std::uint32_t, 4>;

// The known-answer vectors of the authors' Random123 library (kat_vectors, philox4x32 10).
TEST(Philox, AgreesWithTheKnownAnswersOfRandom123) {
  EXPECT_EQ(philox4x32(PhiloxKey{{0, 0}}, {0, 0, 0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox4x32(PhiloxKey{{kOnes, kOnes}}, {kOnes, kOnes, kOnes, kOnes}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32(PhiloxKey{{0xa4093822, 0x299f31d0}}, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, KeysDifferBySeedPurposeAndLayer) {
  std::set<std::uint64_t> keys;
  for (std::uint64_t seed : {0ull, 1ull, 2ull, 1ull << 32, 1ull << 63}) {
    for (std::uint32_t purpose = 0; purpose < 8; ++purpose) {
      for (std::uint32_t layer = 0; layer < 64; ++layer) {
        const PhiloxKey key = make_philox_key(seed, purpose, layer);
        keys.insert(static_cast<std::uint64_t>(key.word[0]) << 32 | key.word[1]);
      }
    }
  }
  EXPECT_EQ(keys.size(), 5u * 8 * 64);
}

TEST(Philox, NumbersDependOnBothHalvesOfOrdinalAndElement) {
  const PhiloxKey key = make_philox_key(7, 1, 2);
  std::set<float> numbers;
  for (std::uint64_t ordinal : {0ull, 1ull, 1ull << 32, 1ull << 40}) {
    for (std::uint64_t element : {0ull, 1ull, 1ull << 32, 1ull << 40})
      numbers.insert(philox_normal(key, ordinal, element));
  }
  EXPECT_EQ(numbers.size(), 16u);
}

// Sample moments against the distribution's, within five standard errors.
TEST(Philox, UniformNumbersHaveTheMomentsOfTheUniformDistribution) {
  const PhiloxKey key = make_philox_key(1, 0, 0);
  constexpr int kCount = 200'000;
  double sum = 0;
  double sum_of_squares = 0;
  for (int i = 0; i < kCount; ++i) {
    const double x = philox_uniform(key, 3, static_cast<std::uint64_t>(i));
    ASSERT_GE(x, 0.0);
    ASSERT_LT(x, 1.0);
    sum += x;
    sum_of_squares += x * x;
  }
  EXPECT_NEAR(sum / kCount, 0.5, 5 * std::sqrt(1.0 / 12 / kCount));
  EXPECT_NEAR(sum_of_squares / kCount, 1.0 / 3, 5 * std::sqrt(4.0 / 45 / kCount));
}

TEST(Philox, NormalNumbersHaveTheMomentsOfTheNormalDistribution) {
  const PhiloxKey key = make_philox_key(1, 1, 0);
  constexpr int kCount = 200'000;
  double moment[5] = {};
  double lag_product = 0;
  double previous = 0;
  for (int i = 0; i < kCount; ++i) {
    const double x = philox_normal(key, 0, static_cast<std::uint64_t>(i));
    ASSERT_TRUE(std::isfinite(x));
    double power = 1;
    for (double& m : moment) {
      m += power;
      power *= x;
    }
    lag_product += previous * x;
    previous = x;
  }
  const double n = kCount;
  EXPECT_NEAR(moment[1] / n, 0, 5 * std::sqrt(1 / n));
  EXPECT_NEAR(moment[2] / n, 1, 5 * std::sqrt(2 / n));
  EXPECT_NEAR(moment[3] / n, 0, 5 * std::sqrt(15 / n));
  EXPECT_NEAR(moment[4] / n, 3, 5 * std::sqrt(96 / n));
  EXPECT_NEAR(lag_product / n, 0, 5 * std::sqrt(1 / n));
}

TEST(Philox, IntegersBelowABoundAreInRangeAndEvenlySpread) {
  const PhiloxKey key = make_philox_key(9, 2, 0);
  EXPECT_EQ(philox_below(key, 0, 0, 1), 0u);
  constexpr std::uint64_t kBound = 7;
  constexpr int kCount = 70'000;
  int seen[kBound] = {};
  for (int i = 0; i < kCount; ++i) {
    const std::uint64_t value = philox_below(key, 0, static_cast<std::uint64_t>(i), kBound);
    ASSERT_LT(value, kBound);
    ++seen[value];
  }
  const double expected = static_cast<double>(kCount) / kBound;
  double chi_squared = 0;
  for (int count : seen) chi_squared += (count - expected) * (count - expected) / expected;
  EXPECT_LT(chi_squared, 35.0);  // Six degrees of freedom: exceeded once in 200,000 keys.
  constexpr std::uint64_t kHuge = (std::uint64_t{1} << 63) + 12'345;
  for (std::uint64_t i = 0; i < 1000; ++i) ASSERT_LT(philox_below(key, 1, i, kHuge), kHuge);
}

TEST(PhiloxDeath, ABoundOfZeroStopsTheProgram) {
  EXPECT_DEATH(philox_below(PhiloxKey{}, 0, 0, 0), "positive bound");
}

}  // namespace
}  // namespace trireme
