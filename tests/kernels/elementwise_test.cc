#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <limits>

#include <trireme/base/float_types.h>

#include "kernels/cpu/simd/simd_set.h"
#include "tests/kernels/kernel_test_data.h"

namespace trireme::kernels {
namespace {

using testing::expect_close;
using testing::for_sets_and_pools;
using testing::random_normal;
using testing::wide;

TEST(AdamW, FollowsThePaperOverSeveralSteps) {
  for_sets_and_pools([](const KernelSet& set, ThreadPool& pool, const std::string& label) {
    for (std::int64_t count : {0, 1, 17, 40001}) {
      std::vector<float> p = random_normal(count, 1), m(p.size()), v(p.size());
      auto ep = wide(p), em = wide(m), ev = wide(v);
      for (std::int64_t step = 1; step <= 5; ++step) {
        const auto g = random_normal(count, static_cast<std::uint32_t>(10 + step));
        AdamW options{.learning_rate = 1e-2f,
                      .beta1 = 0.9f,
                      .beta2 = 0.95f,
                      .epsilon = 1e-8f,
                      .weight_decay = 0.1f,
                      .gradient_scale = 0.5f,
                      .step = step};
        set.adamw_step(pool, p.data(), m.data(), v.data(), g.data(), count, options);
        const auto n = static_cast<double>(step);
        for (std::size_t i = 0; i < ep.size(); ++i) {
          const double gradient = 0.5 * static_cast<double>(g[i]);
          em[i] = 0.9 * em[i] + 0.1 * gradient;
          ev[i] = 0.95 * ev[i] + 0.05 * gradient * gradient;
          const double m_hat = em[i] / (1 - std::pow(0.9, n)), v_hat = ev[i] / (1 - std::pow(0.95, n));
          ep[i] = ep[i] * (1 - 1e-2 * 0.1) - 1e-2 * m_hat / (std::sqrt(v_hat) + 1e-8);
        }
      }
      expect_close(p, ep, 2e-6, label + " parameters");
      expect_close(m, em, 2e-6, label + " m");
      expect_close(v, ev, 2e-6, label + " v");
    }
  });
}

TEST(SumOfSquares, IsAccurateAndIndependentOfThreads) {
  for (const testing::NamedSet& named : testing::kernel_sets()) {
    for (std::int64_t count : {0, 1, 7, 17, 70001}) {
      const auto x = random_normal(count, 1, 100.0f);
      double right = 0;
      for (float value : x) right += static_cast<double>(value) * static_cast<double>(value);
      ThreadPool one(1), three(3);
      const double a = named.set.sum_of_squares(one, x.data(), count);
      EXPECT_NEAR(a, right, 1e-12 * right) << named.name;
      EXPECT_EQ(a, named.set.sum_of_squares(three, x.data(), count)) << named.name;
    }
  }
}

TEST(ScaleAndAxpy, RoundOnceAnOperation) {
  for_sets_and_pools([](const KernelSet& set, ThreadPool& pool, const std::string& label) {
    for (std::int64_t count : {0, 1, 17, 50003}) {
      const auto x = random_normal(count, 1), start = random_normal(count, 2);
      std::vector<float> y = start;
      set.axpy(pool, y.data(), 0.3f, x.data(), count);
      set.scale(pool, y.data(), 1.7f, count);
      for (std::size_t i = 0; i < y.size(); ++i) {
        const float product = 0.3f * x[i];
        ASSERT_EQ(y[i], (start[i] + product) * 1.7f) << label;
      }
    }
  });
}

TEST(FindNonFinite, FindsTheFirst) {
  for_sets_and_pools([](const KernelSet& set, ThreadPool& pool, const std::string& label) {
    auto x = random_normal(60001, 1);
    EXPECT_EQ(set.find_non_finite(pool, x.data(), 60001), -1) << label;
    EXPECT_EQ(set.find_non_finite(pool, x.data(), 0), -1) << label;
    x[60000] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(set.find_non_finite(pool, x.data(), 60001), 60000) << label;
    x[40000] = -std::numeric_limits<float>::infinity();
    EXPECT_EQ(set.find_non_finite(pool, x.data(), 60001), 40000) << label;
    x[0] = std::numeric_limits<float>::infinity();
    EXPECT_EQ(set.find_non_finite(pool, x.data(), 60001), 0) << label;
  });
}

TEST(Bf16, ConversionIsTheDefinition) {
  for_sets_and_pools([](const KernelSet& set, ThreadPool& pool, const std::string& label) {
    auto x = random_normal(40003, 1);
    x[5] = std::numeric_limits<float>::quiet_NaN();
    x[6] = std::numeric_limits<float>::max();
    std::vector<std::uint16_t> codes(x.size());
    std::vector<float> back(x.size());
    const auto count = static_cast<std::int64_t>(x.size());
    set.convert_to_bf16(pool, codes.data(), x.data(), count);
    set.convert_to_f32(pool, back.data(), codes.data(), count);
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(codes[i], f32_to_bf16(x[i])) << label;
      ASSERT_EQ(std::bit_cast<std::uint32_t>(back[i]), std::uint32_t{codes[i]} << 16) << label;
    }
  });
}

// The distance of a from the exact value in units of a's last place.
double ulps(float a, double exact) {
  const auto rounded = static_cast<float>(exact);
  const double unit =
      static_cast<double>(std::nextafter(std::abs(rounded), 1e38f)) - std::abs(static_cast<double>(rounded));
  return std::abs(static_cast<double>(a) - exact) / unit;
}

TEST(VectorMath, ExponentialIsWithinTwoUnitsInTheLastPlace) {
  std::vector<float> x;
  for (float value = -87.0f; value < 88.7f; value += 0.00137f) x.push_back(value);
  for (const SimdSet* set : {&simd_baseline(), &simd()}) {
    std::vector<float> y(x.size());
    set->exponential(y.data(), x.data(), x.size());
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i) worst = std::max(worst, ulps(y[i], std::exp(static_cast<double>(x[i]))));
    EXPECT_LT(worst, 2.0) << set->name;
  }
}

TEST(VectorMath, ExponentialOfSpecialValues) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {0.0f, -0.0f, infinity, -infinity, 89.0f, -88.0f, 1e30f, -1e30f, std::nanf("")};
  for (const SimdSet* set : {&simd_baseline(), &simd()}) {
    std::vector<float> y(x.size());
    set->exponential(y.data(), x.data(), x.size());
    EXPECT_EQ(std::vector<float>(y.begin(), y.end() - 1),
              (std::vector<float>{1, 1, infinity, 0, infinity, 0, infinity, 0}))
        << set->name;
    EXPECT_TRUE(std::isnan(y.back())) << set->name;
  }
}

// Everything elementwise, on the instruction set that simd() did not pick as well.
TEST(Simd, BaselineAgreesWithTheBestSet) {
  const std::size_t count = 261;
  const auto x = random_normal(count, 1), dy = random_normal(count, 2);
  const SimdSet &a = simd_baseline(), &b = simd();
  const auto same = [&](auto member, double tolerance) {
    std::vector<float> first(count), second(count);
    if constexpr (std::is_same_v<decltype(member), decltype(&SimdSet::gelu_tanh)>) {
      (a.*member)(first.data(), x.data(), count);
      (b.*member)(second.data(), x.data(), count);
    } else {
      (a.*member)(first.data(), dy.data(), x.data(), count);
      (b.*member)(second.data(), dy.data(), x.data(), count);
    }
    expect_close(second, wide(first), tolerance, "member");
  };
  same(&SimdSet::gelu_tanh, 1e-6);
  same(&SimdSet::gelu_exact, 1e-6);
  same(&SimdSet::round_to_bf16, 0);
  same(&SimdSet::add, 0);
  same(&SimdSet::gelu_tanh_backward, 1e-6);
  same(&SimdSet::gelu_exact_backward, 1e-6);
  const LogSumExp first = a.log_sum_exp(x.data(), count), second = b.log_sum_exp(x.data(), count);
  EXPECT_EQ(first.maximum, second.maximum);
  EXPECT_NEAR(first.sum, second.sum, 1e-6 * first.sum);
  EXPECT_EQ(a.sum_of_squares(x.data(), count), b.sum_of_squares(x.data(), count));
}

TEST(Simd, LogSumExpKeepsNaN) {
  for (std::size_t at : {0u, 5u, 16u}) {
    auto x = random_normal(17, 1);
    x[at] = std::nanf("");
    for (const SimdSet* set : {&simd_baseline(), &simd()}) {
      EXPECT_TRUE(std::isnan(set->log_sum_exp(x.data(), x.size()).sum)) << set->name << " at " << at;
    }
  }
}

}  // namespace
}  // namespace trireme::kernels
