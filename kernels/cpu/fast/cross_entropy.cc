// The loss head, one block of rows after the other:
//   logits = h W^T; p = softmax; loss += -log p[target];
//   dlogits = scale (p - onehot), in place; dh = dlogits W; dW += dlogits^T h.
#include "kernels/cpu/fast/split.h"
#include "kernels/cpu/head_scratch.h"
#include "kernels/cpu/kernel_set.h"
#include "kernels/cpu/simd/simd_set.h"

#include <algorithm>
#include <cmath>

#include <trireme/base/check.h>

namespace trireme::kernels::fast {
namespace {

struct RowBlock {
  std::int64_t begin, rows;
  float* logits;
  double* loss;  // Of each row; 0 when ignored.
};

bool ignored(const HeadCrossEntropy& call, std::int64_t row) {
  const std::int32_t target = call.targets[row];
  if (target == call.ignore_index) return true;
  TRIREME_CHECK(target >= 0 && target < call.shape.vocabulary, "a target is in the vocabulary or ignore_index");
  return false;
}

double row_loss(const LogSumExp& sum, float target_logit) {
  return static_cast<double>(sum.maximum) + std::log(sum.sum) - static_cast<double>(target_logit);
}

double loss_of_row(const HeadCrossEntropy& call, const RowBlock& block, std::int64_t r) {
  const std::int64_t row = block.begin + r;
  if (ignored(call, row)) return 0;
  const float* logits = block.logits + r * call.shape.vocabulary;
  return row_loss(simd().log_sum_exp(logits, static_cast<std::size_t>(call.shape.vocabulary)),
                  logits[call.targets[row]]);
}

// Also turns the row's logits into their gradients.
double gradient_of_row(const HeadCrossEntropy& call, const RowBlock& block, std::int64_t r) {
  const std::int64_t row = block.begin + r;
  const auto width = static_cast<std::size_t>(call.shape.vocabulary);
  float* logits = block.logits + r * call.shape.vocabulary;
  if (ignored(call, row)) {
    std::fill_n(logits, width, 0.0f);
    return 0;
  }
  const std::int32_t target = call.targets[row];
  const float target_logit = logits[target];
  const LogSumExp sum = simd().exponentiate(logits, width);
  simd().scale(logits, static_cast<float>(static_cast<double>(call.scale) / sum.sum), width);
  logits[target] -= call.scale;
  return row_loss(sum, target_logit);
}

void backward_block(ThreadPool& pool, const HeadCrossEntropy& call, const RowBlock& block) {
  const HeadShape& s = call.shape;
  const LinearShape shape{block.rows, s.dim, s.vocabulary};
  fast::linear_backward_input(pool, call.dh + block.begin * s.dim, block.logits, call.w, shape, call.precision, false);
  if (call.dw == nullptr) return;
  fast::linear_backward_weight(pool, call.dw, nullptr, block.logits, call.h + block.begin * s.dim, shape,
                               call.precision);
}

template <bool kGradient>
HeadLoss run_head(ThreadPool& pool, const HeadCrossEntropy& call) {
  const HeadShape& s = call.shape;
  HeadLoss result;
  if (s.rows == 0) return result;
  TRIREME_CHECK(s.vocabulary >= 1, "a loss needs a vocabulary of at least one word");
  const HeadScratch scratch = head_scratch(call);
  for (std::int64_t begin = 0; begin < s.rows; begin += scratch.rows) {
    const RowBlock block{begin, std::min(scratch.rows, s.rows - begin), scratch.logits, scratch.loss};
    fast::head_logits(pool, block.logits, call.h + begin * s.dim, call.w, {block.rows, s.dim, s.vocabulary},
                      call.precision);
    split_rows(pool, block.rows, s.vocabulary, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t r = first; r < last; ++r) {
        block.loss[r] = kGradient ? gradient_of_row(call, block, r) : loss_of_row(call, block, r);
      }
    });
    for (std::int64_t r = 0; r < block.rows; ++r) {
      result.loss_sum += block.loss[r];
      result.rows += call.targets[begin + r] == call.ignore_index ? 0 : 1;
    }
    if (kGradient) backward_block(pool, call, block);
  }
  return result;
}

}  // namespace

HeadLoss head_cross_entropy(ThreadPool& pool, const HeadCrossEntropy& call) {
  return run_head<true>(pool, call);
}
HeadLoss head_loss(ThreadPool& pool, const HeadCrossEntropy& call) {
  return run_head<false>(pool, call);
}

void head_logits(ThreadPool& pool, float* logits, const float* h, const float* w, HeadShape shape,
                 Precision precision) {
  fast::linear_forward(pool, logits, h, w, nullptr, {shape.rows, shape.dim, shape.vocabulary}, precision);
}

}  // namespace trireme::kernels::fast
