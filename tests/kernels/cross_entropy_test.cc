#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

#include "kernels/cpu/reference/layers.h"
#include "tests/kernels/kernel_test_data.h"

namespace trireme::kernels {
namespace {

using testing::expect_close;
using testing::random_normal;
using testing::random_tokens;
using testing::wide;

struct FreeDeleter {
  void operator()(void* memory) const { std::free(memory); }
};

struct Head {
  HeadShape shape;
  std::vector<float> h, w, dh, dw;
  std::vector<std::int32_t> targets;
  std::unique_ptr<void, FreeDeleter> scratch;
  HeadCrossEntropy call;
};

Head make_head(HeadShape shape, float scale) {
  Head head;
  head.shape = shape;
  head.h = random_normal(shape.rows * shape.dim, 1);
  head.w = random_normal(shape.vocabulary * shape.dim, 2);
  head.targets = random_tokens(shape.rows, shape.vocabulary, 3);
  for (std::size_t r = 4; r < head.targets.size(); r += 5) head.targets[r] = -1;
  head.dh.assign(head.h.size(), 99.0f);
  head.dw = random_normal(shape.vocabulary * shape.dim, 4, 0.01f);
  const std::size_t bytes = (head_scratch_bytes(shape) + 63) / 64 * 64;
  head.scratch.reset(std::aligned_alloc(64, bytes == 0 ? 64 : bytes));
  head.call = {.shape = shape,
               .h = head.h.data(),
               .w = head.w.data(),
               .targets = head.targets.data(),
               .scale = scale,
               .dh = head.dh.data(),
               .dw = head.dw.data(),
               .scratch = head.scratch.get()};
  return head;
}

struct Expected {
  HeadLoss loss;
  std::vector<double> dh, dw;
};

Expected expected(const Head& head) {
  const HeadShape& s = head.shape;
  Expected e{{}, std::vector<double>(head.h.size()), wide(head.dw)};
  const auto h = wide(head.h), w = wide(head.w);
  std::vector<double> logits(static_cast<std::size_t>(s.vocabulary));
  for (std::int64_t r = 0; r < s.rows; ++r) {
    const std::int32_t target = head.targets[static_cast<std::size_t>(r)];
    if (target < 0) continue;
    const LinearShape one{1, s.dim, s.vocabulary};
    reference::linear<double>(logits.data(), h.data() + r * s.dim, w.data(), nullptr, one, false);
    e.loss.loss_sum +=
        reference::cross_entropy_row(logits.data(), s.vocabulary, target, static_cast<double>(head.call.scale));
    ++e.loss.rows;
    reference::linear_input<double>(e.dh.data() + r * s.dim, logits.data(), w.data(), one, false, false);
    reference::linear_weight<double>(e.dw.data(), nullptr, logits.data(), h.data() + r * s.dim, one, false);
  }
  return e;
}

void check(const KernelSet& set, ThreadPool& pool, HeadShape shape, const std::string& label) {
  Head head = make_head(shape, 0.125f);
  const Expected right = expected(head);
  const HeadLoss only = set.head_loss(pool, head.call);
  EXPECT_EQ(head.dh, std::vector<float>(head.dh.size(), 99.0f)) << "head_loss writes no gradient";
  const HeadLoss loss = set.head_cross_entropy(pool, head.call);
  EXPECT_EQ(loss.rows, right.loss.rows) << label;
  EXPECT_EQ(only.rows, right.loss.rows) << label;
  EXPECT_NEAR(loss.loss_sum, right.loss.loss_sum, 1e-5 * (1 + right.loss.loss_sum)) << label;
  EXPECT_EQ(loss.loss_sum, only.loss_sum) << label;
  expect_close(head.dh, right.dh, 3e-6, label + " dh");
  expect_close(head.dw, right.dw, 3e-6, label + " dw");
}

TEST(HeadCrossEntropy, AgreesWithF64) {
  testing::for_sets_and_pools([](const KernelSet& set, ThreadPool& pool, const std::string& label) {
    for (std::int64_t vocabulary : {1, 3, 17, 65, 256, 1001}) {
      for (std::int64_t rows : {1, 3, 33}) {
        check(set, pool, {.rows = rows, .dim = 19, .vocabulary = vocabulary},
              label + ", vocabulary " + std::to_string(vocabulary));
        if (HasFatalFailure()) return;
      }
    }
    check(set, pool, {.rows = 0, .dim = 19, .vocabulary = 5}, label);
  });
}

// A vocabulary so large that the rows take several blocks of scratch.
TEST(HeadCrossEntropy, SeveralBlocks) {
  const HeadShape shape{.rows = 18, .dim = 1, .vocabulary = 1'000'003};
  ASSERT_LT(head_scratch_bytes(shape), 18u * 1'000'003u * 4u);
  ThreadPool pool(2);
  check(testing::kernel_sets().front().set, pool, shape, "blocks");
}

TEST(HeadCrossEntropy, FrozenHeadAndIgnoredRows) {
  testing::for_sets_and_pools([](const KernelSet& set, ThreadPool& pool, const std::string& label) {
    Head head = make_head({.rows = 10, .dim = 8, .vocabulary = 9}, 1.0f);
    head.targets.assign(10, -1);
    head.call.dw = nullptr;
    const HeadLoss loss = set.head_cross_entropy(pool, head.call);
    EXPECT_EQ(loss.rows, 0) << label;
    EXPECT_EQ(loss.loss_sum, 0.0) << label;
    EXPECT_EQ(head.dh, std::vector<float>(80, 0.0f)) << label;
  });
}

TEST(HeadCrossEntropy, LossDoesNotDependOnTheNumberOfThreads) {
  double first = 0;
  for (int threads : {1, 1, 3}) {
    ThreadPool pool(threads);
    Head head = make_head({.rows = 200, .dim = 32, .vocabulary = 256}, 1.0f);
    const double loss = active_kernels().head_loss(pool, head.call).loss_sum;
    if (first == 0) first = loss;
    EXPECT_NEAR(loss, first, 1e-7 * first);
  }
}

TEST(HeadLogits, AgreesWithF64) {
  testing::for_sets_and_pools([](const KernelSet& set, ThreadPool& pool, const std::string& label) {
    Head head = make_head({.rows = 3, .dim = 33, .vocabulary = 65}, 1.0f);
    std::vector<float> logits(3 * 65);
    std::vector<double> right(logits.size());
    set.head_logits(pool, logits.data(), head.h.data(), head.w.data(), head.shape, Precision::f32);
    reference::linear<double>(right.data(), wide(head.h).data(), wide(head.w).data(), nullptr, {3, 33, 65}, false);
    expect_close(logits, right, 2e-6, label);
  });
}

}  // namespace
}  // namespace trireme::kernels
