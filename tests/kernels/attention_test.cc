#include <gtest/gtest.h>

#include <cstring>

#include "kernels/cpu/reference/layers.h"
#include "kernels/cpu/simd/simd_set.h"
#include "tests/kernels/kernel_test_data.h"

namespace trireme::kernels {
namespace {

using testing::expect_close;
using testing::random_normal;
using testing::wide;

// Rows of q, k and v lie in one fused projection with `gap` unused elements after it.
struct Problem {
  AttentionShape shape;
  std::vector<float> qkv, dout;
  std::int64_t dim;
};

Problem problem(std::int64_t batch, std::int64_t tokens, std::int64_t heads, std::int64_t head_dim,
                std::int64_t gap = 0, float scale = 1.0f) {
  Problem p;
  p.dim = heads * head_dim;
  p.shape = {.batch = batch,
             .tokens = tokens,
             .heads = heads,
             .head_dim = head_dim,
             .qkv_stride = 3 * p.dim + gap,
             .out_stride = p.dim + gap};
  p.qkv = random_normal(batch * tokens * p.shape.qkv_stride, 1, scale);
  p.dout = random_normal(batch * tokens * p.shape.out_stride, 2);
  return p;
}

template <class T>
struct Results {
  explicit Results(const Problem& p)
      : out(p.dout.size()),
        log_sum_exp(static_cast<std::size_t>(p.shape.batch * p.shape.heads * p.shape.tokens)),
        dqkv(p.qkv.size()) {}
  std::vector<T> out, log_sum_exp, dqkv;
};

Results<double> expected(const Problem& p) {
  Results<double> r(p);
  const auto qkv = wide(p.qkv);
  const double *q = qkv.data(), *k = q + p.dim, *v = k + p.dim;
  reference::attention<double>(r.out.data(), r.log_sum_exp.data(), q, k, v, p.shape);
  reference::attention_input<double>(r.dqkv.data(), r.dqkv.data() + p.dim, r.dqkv.data() + 2 * p.dim,
                                     wide(p.dout).data(), r.out.data(), r.log_sum_exp.data(), q, k, v, p.shape);
  return r;
}

Results<float> run(const KernelSet& set, ThreadPool& pool, const Problem& p) {
  Results<float> r(p);
  const float *q = p.qkv.data(), *k = q + p.dim, *v = k + p.dim;
  set.attention_forward(pool, r.out.data(), r.log_sum_exp.data(), q, k, v, p.shape);
  set.attention_backward_input(pool, r.dqkv.data(), r.dqkv.data() + p.dim, r.dqkv.data() + 2 * p.dim, p.dout.data(),
                               r.out.data(), r.log_sum_exp.data(), q, k, v, p.shape);
  return r;
}

void compare(const Results<float>& actual, const Results<double>& expected, const std::string& label) {
  expect_close(actual.out, expected.out, 3e-6, label + " out");
  expect_close(actual.log_sum_exp, expected.log_sum_exp, 3e-6, label + " log_sum_exp");
  expect_close(actual.dqkv, expected.dqkv, 1e-5, label + " gradients");
}

std::string name_of(const Problem& p) {
  return "tokens " + std::to_string(p.shape.tokens) + ", head_dim " + std::to_string(p.shape.head_dim);
}

TEST(Attention, EveryLengthUpToSeventy) {
  ThreadPool pool(2);
  for (std::int64_t tokens = 1; tokens <= 70; ++tokens) {
    const Problem p = problem(1, tokens, 2, tokens % 2 == 0 ? 8 : 5, tokens % 3);
    const Results<double> right = expected(p);
    for (const testing::NamedSet& named : testing::kernel_sets()) {
      compare(run(named.set, pool, p), right, std::string(named.name) + ", " + name_of(p));
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Attention, HeadDimensionsAndSeveralTiles) {
  for (std::int64_t head_dim : {1, 3, 7, 16, 33, 64, 127, 128, 130, 256}) {
    const Problem p = problem(2, head_dim > 100 ? 67 : 131, 1, head_dim, 1);
    const Results<double> right = expected(p);
    testing::for_sets_and_pools([&](const KernelSet& set, ThreadPool& pool, const std::string& label) {
      if (pool.threads() == 2) return;
      compare(run(set, pool, p), right, label + ", " + name_of(p));
    });
    if (HasFatalFailure()) return;
  }
}

// Scores of several hundred: without the running maximum exp would overflow.
TEST(Attention, LargeScoresStayFinite) {
  ThreadPool pool(1);
  const Problem p = problem(1, 150, 1, 16, 0, 15.0f);
  const Results<double> right = expected(p);
  for (const testing::NamedSet& named : testing::kernel_sets()) {
    const Results<float> actual = run(named.set, pool, p);
    expect_close(actual.out, right.out, 2e-4, named.name);  // Scores of 1e3 carry errors of 1e-4.
    for (float value : actual.dqkv) ASSERT_TRUE(std::isfinite(value)) << named.name;
  }
}

TEST(Attention, EmptyBatchIsLegal) {
  testing::for_sets_and_pools([](const KernelSet& set, ThreadPool& pool, const std::string&) {
    const AttentionShape none{.batch = 0, .tokens = 5, .heads = 2, .head_dim = 4, .qkv_stride = 24, .out_stride = 8};
    set.attention_forward(pool, nullptr, nullptr, nullptr, nullptr, nullptr, none);
  });
}

TEST(Attention, FutureTokensDoNotMatter) {
  ThreadPool pool(2);
  for (const testing::NamedSet& named : testing::kernel_sets()) {
    Problem p = problem(1, 100, 2, 16);
    const Results<float> before = run(named.set, pool, p);
    const std::int64_t cut = 71;
    for (std::size_t i = static_cast<std::size_t>(cut * p.shape.qkv_stride); i < p.qkv.size(); ++i) p.qkv[i] = 1e3f;
    const Results<float> after = run(named.set, pool, p);
    EXPECT_EQ(std::memcmp(before.out.data(), after.out.data(),
                          static_cast<std::size_t>(cut * p.shape.out_stride) * sizeof(float)),
              0)
        << named.name;
  }
}

TEST(Attention, ThreadCountDoesNotShowAndNothingIsWrittenBetweenHeads) {
  for (const testing::NamedSet& named : testing::kernel_sets()) {
    const Problem p = problem(2, 100, 3, 20, 7);
    ThreadPool one(1), three(3);
    const Results<float> a = run(named.set, one, p), b = run(named.set, three, p);
    EXPECT_EQ(a.out, b.out) << named.name;
    EXPECT_EQ(a.dqkv, b.dqkv) << named.name;
    for (std::int64_t row = 0; row < 200; ++row) {
      for (std::int64_t i = p.dim; i < p.shape.out_stride; ++i) {
        ASSERT_EQ(a.out[static_cast<std::size_t>(row * p.shape.out_stride + i)], 0.0f);
      }
    }
  }
}

// simd() picks one instruction set; the other must be right as well.
TEST(Attention, BaselineInstructionSet) {
  const Problem p = problem(1, 133, 1, 24);
  const Results<double> right = expected(p);
  Results<float> actual(p);
  const AttentionHead head{.q = p.qkv.data(),
                           .k = p.qkv.data() + p.dim,
                           .v = p.qkv.data() + 2 * p.dim,
                           .tokens = 133,
                           .head_dim = 24,
                           .qkv_stride = p.shape.qkv_stride,
                           .out_stride = p.shape.out_stride,
                           .scale = 1.0f / std::sqrt(24.0f)};
  simd_baseline().attention(actual.out.data(), actual.log_sum_exp.data(), head, 0, 133);
  simd_baseline().attention_backward(head, {.dq = actual.dqkv.data(),
                                            .dk = actual.dqkv.data() + p.dim,
                                            .dv = actual.dqkv.data() + 2 * p.dim,
                                            .dout = p.dout.data(),
                                            .out = actual.out.data(),
                                            .log_sum_exp = actual.log_sum_exp.data()});
  compare(actual, right, "baseline");
}

}  // namespace
}  // namespace trireme::kernels
