#include "kernels/cpu/head_scratch.h"

#include <algorithm>

#include <trireme/base/check.h>

namespace trireme::kernels {
namespace {

// Larger blocks read and write dW less often, smaller ones keep memory small.
constexpr std::int64_t kLogitsBytes = std::int64_t{64} << 20;
constexpr std::int64_t kRowsMin = 16;

std::int64_t block_rows(HeadShape shape) {
  const std::int64_t row_bytes = std::max<std::int64_t>(1, shape.vocabulary) * static_cast<std::int64_t>(sizeof(float));
  return std::min(shape.rows, std::max(kRowsMin, kLogitsBytes / row_bytes / kRowsMin * kRowsMin));
}

// Whole cache lines of f64.
std::int64_t loss_slots(std::int64_t rows) {
  return (rows + 7) / 8 * 8;
}

}  // namespace

std::size_t head_scratch_bytes(HeadShape shape) {
  const std::int64_t rows = block_rows(shape);
  return static_cast<std::size_t>(loss_slots(rows)) * sizeof(double) +
         static_cast<std::size_t>(rows * shape.vocabulary) * sizeof(float);
}

HeadScratch head_scratch(const HeadCrossEntropy& call) {
  TRIREME_CHECK(call.scratch != nullptr || call.shape.rows == 0, "the loss head gets head_scratch_bytes of scratch");
  HeadScratch scratch;
  scratch.rows = block_rows(call.shape);
  scratch.loss = static_cast<double*>(call.scratch);
  scratch.logits = reinterpret_cast<float*>(scratch.loss + loss_slots(scratch.rows));
  return scratch;
}

}  // namespace trireme::kernels
