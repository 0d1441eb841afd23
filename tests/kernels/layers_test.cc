// Embedding, layer norm, GELU and residual addition against the f64 definitions, which
// finite_difference_test.cc checks in turn.
#include <gtest/gtest.h>

#include "kernels/cpu/reference/layers.h"
#include "tests/kernels/kernel_test_data.h"

namespace trireme::kernels {
namespace {

using testing::expect_close;
using testing::for_sets_and_pools;
using testing::random_normal;
using testing::random_tokens;
using testing::wide;

void check_embedding(const KernelSet& set, ThreadPool& pool, EmbeddingShape s, const std::string& label) {
  const auto tokens = random_tokens(s.rows, s.vocabulary, 1);
  const auto table = random_normal(s.vocabulary * s.dim, 2);
  const auto positions = random_normal((s.position + s.tokens_per_sequence) * s.dim, 3);
  const auto dout = random_normal(s.rows * s.dim, 4);
  std::vector<float> out(dout.size()), d_table = table, d_positions = positions;
  auto expected_out = wide(out), expected_table = wide(table), expected_positions = wide(positions);
  set.embedding_forward(pool, out.data(), table.data(), positions.data(), tokens.data(), s);
  set.embedding_backward_weight(pool, d_table.data(), d_positions.data(), dout.data(), tokens.data(), s);
  reference::embedding<double>(expected_out.data(), wide(table).data(), wide(positions).data(), tokens.data(), s);
  reference::embedding_weight<double>(expected_table.data(), expected_positions.data(), wide(dout).data(),
                                      tokens.data(), s);
  expect_close(out, expected_out, 1e-7, label);
  expect_close(d_table, expected_table, 1e-6, label);
  expect_close(d_positions, expected_positions, 1e-6, label);
  set.embedding_forward(pool, out.data(), table.data(), nullptr, tokens.data(), s);
  reference::embedding<double>(expected_out.data(), wide(table).data(), nullptr, tokens.data(), s);
  expect_close(out, expected_out, 1e-7, label + " without positions");
}

TEST(Embedding, AgreesWithF64) {
  for_sets_and_pools([](const KernelSet& set, ThreadPool& pool, const std::string& label) {
    for (std::int64_t dim : {1, 3, 17, 65, 256}) {
      check_embedding(set, pool, {.rows = 51, .dim = dim, .vocabulary = 11, .tokens_per_sequence = 17}, label);
    }
    check_embedding(set, pool, {.rows = 300, .dim = 129, .vocabulary = 5, .tokens_per_sequence = 10, .position = 4},
                    label);
    check_embedding(set, pool, {.rows = 0, .dim = 8, .vocabulary = 5}, label);
  });
}

void check_layer_norm(const KernelSet& set, ThreadPool& pool, std::int64_t rows, std::int64_t dim,
                      const std::string& label) {
  const auto x = random_normal(rows * dim, 1, 2.0f), gamma = random_normal(dim, 2), beta = random_normal(dim, 3);
  const auto dy = random_normal(rows * dim, 4), add = random_normal(rows * dim, 5);
  const auto count = x.size();
  std::vector<float> y(count), mean(static_cast<std::size_t>(rows)), rstd(mean), dx(count);
  std::vector<float> dgamma = random_normal(dim, 6), dbeta = random_normal(dim, 7);
  std::vector<double> ey(count), emean(mean.size()), erstd(mean.size()), edx(count);
  auto edgamma = wide(dgamma), edbeta = wide(dbeta);
  set.layer_norm_forward(pool, y.data(), mean.data(), rstd.data(), x.data(), gamma.data(), beta.data(), rows, dim,
                         1e-5f);
  reference::layer_norm<double>(ey.data(), emean.data(), erstd.data(), wide(x).data(), wide(gamma).data(),
                                wide(beta).data(), rows, dim, 1e-5);
  expect_close(y, ey, 3e-6, label + " y");
  expect_close(mean, emean, 1e-6, label + " mean");
  expect_close(rstd, erstd, 2e-6, label + " rstd");
  set.layer_norm_backward_input(pool, dx.data(), add.data(), dy.data(), x.data(), gamma.data(), mean.data(),
                                rstd.data(), rows, dim);
  reference::layer_norm_input<double>(edx.data(), wide(add).data(), wide(dy).data(), wide(x).data(), wide(gamma).data(),
                                      emean.data(), erstd.data(), rows, dim);
  // One column: the exact gradient is 0 and rstd is large, so compare against rstd's scale.
  const double floor = dim == 1 ? 400.0 : 1e-3;
  expect_close(dx, edx, 5e-6, label + " dx", floor);
  set.layer_norm_backward_weight(pool, dgamma.data(), dbeta.data(), dy.data(), x.data(), mean.data(), rstd.data(), rows,
                                 dim);
  reference::layer_norm_weight<double>(edgamma.data(), edbeta.data(), wide(dy).data(), wide(x).data(), emean.data(),
                                       erstd.data(), rows, dim);
  expect_close(dgamma, edgamma, 5e-6, label + " dgamma");
  expect_close(dbeta, edbeta, 5e-6, label + " dbeta");
  // In place on the residual gradient, and without one.
  std::vector<float> in_place = add;
  set.layer_norm_backward_input(pool, in_place.data(), in_place.data(), dy.data(), x.data(), gamma.data(), mean.data(),
                                rstd.data(), rows, dim);
  EXPECT_EQ(in_place, dx) << label;
  set.layer_norm_forward(pool, in_place.data(), nullptr, nullptr, x.data(), gamma.data(), beta.data(), rows, dim,
                         1e-5f);
  EXPECT_EQ(in_place, y) << label << ": evaluation, which saves nothing";
}

TEST(LayerNorm, AgreesWithF64) {
  for_sets_and_pools([](const KernelSet& set, ThreadPool& pool, const std::string& label) {
    for (std::int64_t dim : {1, 3, 8, 17, 65, 256}) {
      for (std::int64_t rows : {0, 1, 67})
        check_layer_norm(set, pool, rows, dim, label + ", dim " + std::to_string(dim));
    }
    check_layer_norm(set, pool, 300, 129, label);
  });
}

TEST(Gelu, BothFormsAgreeWithF64) {
  for_sets_and_pools([](const KernelSet& set, ThreadPool& pool, const std::string& label) {
    for (Gelu kind : {Gelu::tanh, Gelu::exact}) {
      for (std::int64_t count : {0, 1, 3, 17, 65, 50001}) {
        const auto x = random_normal(count, 1, 3.0f), dy = random_normal(count, 2);
        std::vector<float> y(x.size()), dx = dy;
        std::vector<double> ey(x.size()), edx(x.size());
        for (std::size_t i = 0; i < x.size(); ++i) {
          ey[i] = reference::gelu(static_cast<double>(x[i]), kind);
          edx[i] = static_cast<double>(dy[i]) * reference::gelu_derivative(static_cast<double>(x[i]), kind);
        }
        set.gelu_forward(pool, y.data(), x.data(), count, kind);
        set.gelu_backward(pool, dx.data(), dx.data(), x.data(), count, kind);
        expect_close(y, ey, 1e-6, label, 1.0);
        expect_close(dx, edx, 4e-6, label, 1.0);  // The logistic function's argument reaches 50 here.
      }
    }
  });
}

TEST(Gelu, ExtremesAreExact) {
  const std::vector<float> x = {-1000.0f, -30.0f, 0.0f, -0.0f, 30.0f, 1000.0f, 1e30f, -1e30f};
  for_sets_and_pools([&](const KernelSet& set, ThreadPool& pool, const std::string& label) {
    for (Gelu kind : {Gelu::tanh, Gelu::exact}) {
      std::vector<float> y(x.size());
      set.gelu_forward(pool, y.data(), x.data(), static_cast<std::int64_t>(x.size()), kind);
      for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], x[i] > 0 ? x[i] : 0.0f) << label << " at " << x[i];
    }
  });
}

TEST(ResidualAdd, AddsInPlaceToo) {
  for_sets_and_pools([](const KernelSet& set, ThreadPool& pool, const std::string& label) {
    for (std::int64_t count : {0, 1, 17, 40001}) {
      const auto a = random_normal(count, 1), b = random_normal(count, 2);
      std::vector<float> out = a;
      set.residual_add(pool, out.data(), out.data(), b.data(), count);
      for (std::size_t i = 0; i < a.size(); ++i) ASSERT_EQ(out[i], a[i] + b[i]) << label;
    }
  });
}

// Elementwise results and sums must not depend on the number of threads.
TEST(Layers, ThreadCountDoesNotShow) {
  const std::int64_t rows = 700, dim = 129;
  const auto x = random_normal(rows * dim, 1), gamma = random_normal(dim, 2), beta = random_normal(dim, 3);
  for (const testing::NamedSet& named : testing::kernel_sets()) {
    std::vector<float> first;
    for (int threads : {1, 2, 5}) {
      ThreadPool pool(threads);
      std::vector<float> y(x.size()), mean(static_cast<std::size_t>(rows)), rstd(mean), dgamma(gamma.size()),
          dbeta(gamma.size());
      named.set.layer_norm_forward(pool, y.data(), mean.data(), rstd.data(), x.data(), gamma.data(), beta.data(), rows,
                                   dim, 1e-5f);
      named.set.gelu_forward(pool, y.data(), y.data(), rows * dim, Gelu::tanh);
      named.set.layer_norm_backward_weight(pool, dgamma.data(), dbeta.data(), y.data(), x.data(), mean.data(),
                                           rstd.data(), rows, dim);
      y.insert(y.end(), dgamma.begin(), dgamma.end());
      y.insert(y.end(), dbeta.begin(), dbeta.end());
      if (first.empty()) first = y;
      EXPECT_EQ(first, y) << named.name << " with " << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace trireme::kernels
