// How the loss head's scratch is laid out: f64 losses of a block of rows, then their logits.
#pragma once

#include <cstdint>

#include <trireme/kernels/cross_entropy.h>

namespace trireme::kernels {

struct HeadScratch {
  std::int64_t rows = 0;  // Of a block.
  double* loss = nullptr;
  float* logits = nullptr;
};
// REQUIRES: call.scratch holds head_scratch_bytes(call.shape).
HeadScratch head_scratch(const HeadCrossEntropy& call);

}  // namespace trireme::kernels
