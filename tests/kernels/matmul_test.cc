#include <gtest/gtest.h>

#include <trireme/base/float_types.h>

#include "tests/kernels/kernel_test_data.h"

namespace trireme::kernels {
namespace {

using testing::expect_close;
using testing::for_sets_and_pools;
using testing::random_normal;

struct Case {
  std::int64_t m, n, k;
  bool transpose_a = false, transpose_b = false;
  std::int64_t pad = 0;         // Of every leading dimension.
  std::int64_t stride_min = 0;  // And at least this.
  float alpha = 1, beta = 0;
  bool bias = false;
  Precision precision = Precision::f32;
};

double rounded(float value, Precision precision) {
  return static_cast<double>(precision == Precision::bf16 ? bf16_to_f32(f32_to_bf16(value)) : value);
}

struct Operands {
  Matmul call;
  std::vector<float> a, b, c, bias;
};

Operands operands(const Case& with) {
  const auto stride = [&](std::int64_t width) { return std::max(width + with.pad, with.stride_min); };
  Operands o;
  o.call = {.m = with.m,
            .n = with.n,
            .k = with.k,
            .lda = stride(with.transpose_a ? with.m : with.k),
            .transpose_a = with.transpose_a,
            .ldb = stride(with.transpose_b ? with.k : with.n),
            .transpose_b = with.transpose_b,
            .ldc = stride(with.n),
            .alpha = with.alpha,
            .beta = with.beta,
            .precision = with.precision};
  o.a = random_normal(o.call.lda * (with.transpose_a ? with.k : with.m), 1);
  o.b = random_normal(o.call.ldb * (with.transpose_b ? with.n : with.k), 2);
  o.c = random_normal(o.call.ldc * with.m, 3);
  o.bias = random_normal(with.n, 4);
  return o;
}

std::vector<double> expected(const Operands& o, const Case& with) {
  std::vector<double> c = testing::wide(o.c);  // Padding of C must stay as it was.
  for (std::int64_t i = 0; i < with.m; ++i) {
    for (std::int64_t j = 0; j < with.n; ++j) {
      double sum = 0;
      for (std::int64_t p = 0; p < with.k; ++p) {
        const float a = o.a[static_cast<std::size_t>(with.transpose_a ? p * o.call.lda + i : i * o.call.lda + p)];
        const float b = o.b[static_cast<std::size_t>(with.transpose_b ? j * o.call.ldb + p : p * o.call.ldb + j)];
        sum += rounded(a, with.precision) * rounded(b, with.precision);
      }
      double& out = c[static_cast<std::size_t>(i * o.call.ldc + j)];
      out = static_cast<double>(with.alpha) * sum + static_cast<double>(with.beta) * out;
      if (with.bias) out += static_cast<double>(o.bias[static_cast<std::size_t>(j)]);
    }
  }
  return c;
}

void check(const KernelSet& set, ThreadPool& pool, const Case& with, const std::string& label) {
  Operands o = operands(with);
  const std::vector<double> reference = expected(o, with);
  o.call.a = o.a.data();
  o.call.b = o.b.data();
  o.call.c = o.c.data();
  o.call.bias = with.bias ? o.bias.data() : nullptr;
  const std::vector<float> before = o.c;
  set.matmul(pool, o.call);
  expect_close(o.c, reference, 2e-6,
               label + ", " + std::to_string(with.m) + " x " + std::to_string(with.n) + " x " + std::to_string(with.k));
  std::vector<float> first = o.c;
  o.c = before;
  o.call.c = o.c.data();
  set.matmul(pool, o.call);
  EXPECT_EQ(first, o.c) << label << ": the same call, other bits";
}

TEST(Matmul, OddSizesAndTransposes) {
  for_sets_and_pools([](const KernelSet& set, ThreadPool& pool, const std::string& label) {
    for (std::int64_t m : {1, 3, 17, 65}) {
      for (std::int64_t n : {1, 17, 65}) {
        for (int bits = 0; bits < 4; ++bits) {
          check(set, pool, {.m = m, .n = n, .k = 33, .transpose_a = (bits & 1) != 0, .transpose_b = (bits & 2) != 0},
                label);
          if (HasFatalFailure()) return;
        }
      }
    }
  });
}

TEST(Matmul, LeadingDimensionsScalingAndBias) {
  for_sets_and_pools([](const KernelSet& set, ThreadPool& pool, const std::string& label) {
    for (Precision precision : {Precision::f32, Precision::bf16}) {
      check(set, pool,
            {.m = 37, .n = 29, .k = 65, .pad = 3, .alpha = 0.5f, .beta = 2.0f, .bias = true, .precision = precision},
            label);
      check(set, pool, {.m = 37, .n = 29, .k = 65, .transpose_a = true, .pad = 5, .beta = 1.0f, .precision = precision},
            label);
      check(set, pool, {.m = 37, .n = 29, .k = 65, .transpose_b = true, .pad = 1, .bias = true, .precision = precision},
            label);
    }
  });
}

// More than 128 rows or columns and 256 deep cross block edges.
TEST(Matmul, SeveralBlocksInEveryDirection) {
  for_sets_and_pools([](const KernelSet& set, ThreadPool& pool, const std::string& label) {
    for (int bits = 0; bits < 4; ++bits) {
      for (Precision precision : {Precision::f32, Precision::bf16}) {
        check(set, pool,
              {.m = 140,
               .n = 135,
               .k = 260,
               .transpose_a = (bits & 1) != 0,
               .transpose_b = (bits & 2) != 0,
               .stride_min = 1024,
               .precision = precision},
              label);
        if (HasFatalFailure()) return;
      }
    }
    check(set, pool, {.m = 5, .n = 1100, .k = 70}, label);
    check(set, pool, {.m = 1100, .n = 5, .k = 70, .bias = true}, label);
  });
}

TEST(Matmul, ZeroSizes) {
  for_sets_and_pools([](const KernelSet& set, ThreadPool& pool, const std::string& label) {
    check(set, pool, {.m = 0, .n = 4, .k = 4}, label);
    check(set, pool, {.m = 4, .n = 0, .k = 4}, label);
    check(set, pool, {.m = 4, .n = 5, .k = 0}, label);
    check(set, pool, {.m = 4, .n = 5, .k = 0, .beta = 0.5f, .bias = true}, label);
  });
}

TEST(Matmul, BetaZeroDoesNotReadTheOutput) {
  for_sets_and_pools([](const KernelSet& set, ThreadPool& pool, const std::string& label) {
    std::vector<float> a = {1, 2, 3, 4}, b = {5, 6, 7, 8}, c(4, std::nanf(""));
    set.matmul(pool,
               {.m = 2, .n = 2, .k = 2, .a = a.data(), .lda = 2, .b = b.data(), .ldb = 2, .c = c.data(), .ldc = 2});
    EXPECT_EQ(c, (std::vector<float>{19, 22, 43, 50})) << label;
  });
}

TEST(Linear, ForwardAndBackwardAgreeWithF64) {
  for_sets_and_pools([](const KernelSet& set, ThreadPool& pool, const std::string& label) {
    const LinearShape s{.rows = 67, .in = 35, .out = 49};
    const auto x = random_normal(s.rows * s.in, 1), w = random_normal(s.out * s.in, 2), bias = random_normal(s.out, 3);
    const auto dy = random_normal(s.rows * s.out, 4);
    std::vector<float> y(dy.size()), dx = random_normal(s.rows * s.in, 5), dw = random_normal(s.out * s.in, 6),
                                     db = random_normal(s.out, 7);
    auto expected_y = testing::wide(y), expected_dx = testing::wide(dx), expected_dw = testing::wide(dw),
         expected_db = testing::wide(db);
    for (std::int64_t r = 0; r < s.rows; ++r) {
      for (std::int64_t o = 0; o < s.out; ++o) {
        const auto yi = static_cast<std::size_t>(r * s.out + o);
        expected_y[yi] = static_cast<double>(bias[static_cast<std::size_t>(o)]);
        expected_db[static_cast<std::size_t>(o)] += static_cast<double>(dy[yi]);
        for (std::int64_t i = 0; i < s.in; ++i) {
          const auto xi = static_cast<std::size_t>(r * s.in + i), wi = static_cast<std::size_t>(o * s.in + i);
          expected_y[yi] += static_cast<double>(x[xi]) * static_cast<double>(w[wi]);
          expected_dx[xi] += static_cast<double>(dy[yi]) * static_cast<double>(w[wi]);
          expected_dw[wi] += static_cast<double>(dy[yi]) * static_cast<double>(x[xi]);
        }
      }
    }
    set.linear_forward(pool, y.data(), x.data(), w.data(), bias.data(), s, Precision::f32);
    set.linear_backward_input(pool, dx.data(), dy.data(), w.data(), s, Precision::f32, true);
    set.linear_backward_weight(pool, dw.data(), db.data(), dy.data(), x.data(), s, Precision::f32);
    expect_close(y, expected_y, 2e-6, label + " y");
    expect_close(dx, expected_dx, 2e-6, label + " dx");
    expect_close(dw, expected_dw, 2e-6, label + " dw");
    expect_close(db, expected_db, 2e-6, label + " db");
  });
}

}  // namespace
}  // namespace trireme::kernels
