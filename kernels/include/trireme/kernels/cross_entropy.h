// The output head with its loss, fused: logits = h W^T, softmax cross entropy, and both
// gradients, one block of rows at a time, so that the logits of a large vocabulary never
// exist as a whole. Each logit is computed once.
//
// Thread safety: safe for calls that write different outputs and scratch. Losses are
// summed in f64 in row order.
#pragma once

#include <cstddef>
#include <cstdint>

#include <trireme/kernels/matmul.h>

namespace trireme::kernels {

struct HeadShape {
  std::int64_t rows = 0, dim = 0, vocabulary = 0;
};

// Bytes of scratch for `shape`: room for the logits of as many rows as fit in about
// 64 MiB (at least 16 rows, at most all) and one f64 per such row.
std::size_t head_scratch_bytes(HeadShape shape);

struct HeadLoss {
  double loss_sum = 0;    // Sum of -log p(target), in nats, over the rows counted. Not scaled.
  std::int64_t rows = 0;  // Rows counted: those whose target is not ignored.
};

struct HeadCrossEntropy {
  HeadShape shape;
  const float* h = nullptr;               // [rows, dim]
  const float* w = nullptr;               // [vocabulary, dim]
  const std::int32_t* targets = nullptr;  // [rows], each in [0, vocabulary) or ignore_index
  std::int32_t ignore_index = -1;
  float scale = 1.0f;   // The loss whose gradient is taken is scale * loss_sum; 1 / token count as a rule.
  float* dh = nullptr;  // [rows, dim], written.
  float* dw = nullptr;  // [vocabulary, dim], added to; null skips it.
  Precision precision = Precision::f32;
  void* scratch = nullptr;  // head_scratch_bytes(shape), 64-byte aligned; holds nothing between calls.
};
// REQUIRES: every target is in range or ignored (checked).
HeadLoss head_cross_entropy(ThreadPool& pool, const HeadCrossEntropy& call);
// The loss only, for evaluation: dh, dw and scale are not used.
HeadLoss head_loss(ThreadPool& pool, const HeadCrossEntropy& call);
// logits[rows, vocabulary] = h W^T, for generation.
void head_logits(ThreadPool& pool, float* logits, const float* h, const float* w, HeadShape shape,
                 Precision precision = Precision::f32);

}  // namespace trireme::kernels
