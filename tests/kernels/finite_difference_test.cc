// The f64 definitions' gradients against central differences of their forward functions:
// what all other tests of kernels rest on.
#include <gtest/gtest.h>

#include <functional>

#include "kernels/cpu/reference/layers.h"
#include "tests/kernels/kernel_test_data.h"

namespace trireme::kernels {
namespace {

using testing::random_normal;
using testing::wide;
using Values = std::vector<double>;

double dot(const Values& a, const Values& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Checks that `gradient` is the derivative of loss() with respect to `at`.
void expect_gradient(Values& at, const Values& gradient, const std::function<double()>& loss, const char* what) {
  ASSERT_EQ(at.size(), gradient.size());
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double before = at[i], h = 1e-5;
    at[i] = before + h;
    const double up = loss();
    at[i] = before - h;
    const double down = loss();
    at[i] = before;
    ASSERT_NEAR(gradient[i], (up - down) / (2 * h), 1e-7 * (1 + std::abs(gradient[i]))) << what << " " << i;
  }
}

TEST(FiniteDifference, Linear) {
  const LinearShape s{.rows = 3, .in = 4, .out = 5};
  Values x = wide(random_normal(12, 1)), w = wide(random_normal(20, 2)), b = wide(random_normal(5, 3));
  const Values dy = wide(random_normal(15, 4));
  Values dx(12), dw(20), db(5);
  reference::linear_input<double>(dx.data(), dy.data(), w.data(), s, false, false);
  reference::linear_weight<double>(dw.data(), db.data(), dy.data(), x.data(), s, false);
  const auto loss = [&] {
    Values y(15);
    reference::linear<double>(y.data(), x.data(), w.data(), b.data(), s, false);
    return dot(y, dy);
  };
  expect_gradient(x, dx, loss, "x");
  expect_gradient(w, dw, loss, "w");
  expect_gradient(b, db, loss, "bias");
}

TEST(FiniteDifference, Embedding) {
  const EmbeddingShape s{.rows = 6, .dim = 3, .vocabulary = 4, .tokens_per_sequence = 3, .position = 1};
  const std::vector<std::int32_t> tokens = {1, 3, 1, 0, 1, 3};
  Values table = wide(random_normal(12, 1)), positions = wide(random_normal(12, 2));
  const Values dout = wide(random_normal(18, 3));
  Values d_table(12), d_positions(12);
  reference::embedding_weight<double>(d_table.data(), d_positions.data(), dout.data(), tokens.data(), s);
  const auto loss = [&] {
    Values out(18);
    reference::embedding<double>(out.data(), table.data(), positions.data(), tokens.data(), s);
    return dot(out, dout);
  };
  expect_gradient(table, d_table, loss, "token table");
  expect_gradient(positions, d_positions, loss, "position table");
}

TEST(FiniteDifference, LayerNorm) {
  const std::int64_t rows = 3, dim = 7;
  Values x = wide(random_normal(21, 1)), gamma = wide(random_normal(7, 2)), beta = wide(random_normal(7, 3));
  const Values dy = wide(random_normal(21, 4));
  Values y(21), mean(3), rstd(3), dx(21), dgamma(7), dbeta(7);
  const auto loss = [&] {
    reference::layer_norm<double>(y.data(), mean.data(), rstd.data(), x.data(), gamma.data(), beta.data(), rows, dim,
                                  1e-5);
    return dot(y, dy);
  };
  loss();
  reference::layer_norm_input<double>(dx.data(), nullptr, dy.data(), x.data(), gamma.data(), mean.data(), rstd.data(),
                                      rows, dim);
  reference::layer_norm_weight<double>(dgamma.data(), dbeta.data(), dy.data(), x.data(), mean.data(), rstd.data(), rows,
                                       dim);
  expect_gradient(x, dx, loss, "x");
  expect_gradient(gamma, dgamma, loss, "gamma");
  expect_gradient(beta, dbeta, loss, "beta");
}

TEST(FiniteDifference, Gelu) {
  for (Gelu kind : {Gelu::tanh, Gelu::exact}) {
    for (double x = -5; x < 5; x += 0.173) {
      const double h = 1e-5;
      const double slope = (reference::gelu(x + h, kind) - reference::gelu(x - h, kind)) / (2 * h);
      EXPECT_NEAR(reference::gelu_derivative(x, kind), slope, 1e-8) << x;
    }
  }
}

TEST(FiniteDifference, Attention) {
  const AttentionShape s{.batch = 2, .tokens = 5, .heads = 2, .head_dim = 3, .qkv_stride = 6, .out_stride = 6};
  Values q = wide(random_normal(60, 1)), k = wide(random_normal(60, 2)), v = wide(random_normal(60, 3));
  const Values dout = wide(random_normal(60, 4));
  Values out(60), total(20), dq(60), dk(60), dv(60);
  const auto loss = [&] {
    reference::attention<double>(out.data(), total.data(), q.data(), k.data(), v.data(), s);
    return dot(out, dout);
  };
  loss();
  reference::attention_input<double>(dq.data(), dk.data(), dv.data(), dout.data(), out.data(), total.data(), q.data(),
                                     k.data(), v.data(), s);
  expect_gradient(q, dq, loss, "q");
  expect_gradient(k, dk, loss, "k");
  expect_gradient(v, dv, loss, "v");
}

TEST(FiniteDifference, CrossEntropy) {
  Values logits = wide(random_normal(9, 1, 2.0f));
  Values gradient = logits;
  reference::cross_entropy_row(gradient.data(), 9, 4, 0.5);
  const auto loss = [&] {
    Values copy = logits;
    return 0.5 * reference::cross_entropy_row(copy.data(), 9, 4, 0.5);
  };
  expect_gradient(logits, gradient, loss, "logits");
}

// Softmax cross entropy of equal logits is log(count), independently of the code above.
TEST(FiniteDifference, CrossEntropyOfEqualLogits) {
  Values logits(16, 3.0);
  EXPECT_NEAR(reference::cross_entropy_row(logits.data(), 16, 2, 1.0), std::log(16.0), 1e-12);
  EXPECT_NEAR(logits[2], 1.0 / 16 - 1, 1e-12);
  EXPECT_NEAR(logits[3], 1.0 / 16, 1e-12);
}

}  // namespace
}  // namespace trireme::kernels
