#include "kernels/cpu/fast/split.h"
#include "kernels/cpu/kernel_set.h"
#include "kernels/cpu/simd/simd_set.h"

#include <algorithm>
#include <cmath>

#include <trireme/base/check.h>

#include "kernels/cpu/adamw_coefficients.h"

namespace trireme::kernels::fast {
namespace {

std::size_t size(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

// Blocks of a reduction: their number and size depend on the count only, so that the
// sum's order does too. One partial result per block lies on the stack.
constexpr std::int64_t kBlocksMax = 256;
struct Blocks {
  std::int64_t length, count;
};
Blocks blocks_of(std::int64_t count) {
  const std::int64_t length = std::max(kGrainElements, ((count + kBlocksMax - 1) / kBlocksMax + 15) / 16 * 16);
  return {length, (count + length - 1) / length};
}

template <class Result, class Body>
void run_blocks(ThreadPool& pool, std::int64_t count, const Blocks& blocks, Result* partial, const Body& body) {
  pool.run(size(blocks.count), [&](std::size_t block) {
    const std::int64_t begin = static_cast<std::int64_t>(block) * blocks.length;
    partial[block] = body(begin, std::min(begin + blocks.length, count));
  });
}

}  // namespace

void adamw_step(ThreadPool& pool, float* parameter, float* m, float* v, const float* gradient, std::int64_t count,
                const AdamW& options) {
  const AdamWCoefficients with = adamw_coefficients(options);
  split_elements(pool, count, [&](std::int64_t begin, std::int64_t end) {
    simd().adamw(parameter + begin, m + begin, v + begin, gradient + begin, size(end - begin), with);
  });
}

double sum_of_squares(ThreadPool& pool, const float* x, std::int64_t count) {
  if (count <= 0) return 0;
  const Blocks blocks = blocks_of(count);
  double partial[kBlocksMax];
  run_blocks(pool, count, blocks, partial,
             [&](std::int64_t begin, std::int64_t end) { return simd().sum_of_squares(x + begin, size(end - begin)); });
  double sum = 0;
  for (std::int64_t i = 0; i < blocks.count; ++i) sum += partial[i];
  return sum;
}

std::int64_t find_non_finite(ThreadPool& pool, const float* x, std::int64_t count) {
  if (count <= 0) return -1;
  const Blocks blocks = blocks_of(count);
  std::int64_t partial[kBlocksMax];
  run_blocks(pool, count, blocks, partial, [&](std::int64_t begin, std::int64_t end) {
    const std::size_t found = simd().find_non_finite(x + begin, size(end - begin));
    return found == size(end - begin) ? std::int64_t{-1} : begin + static_cast<std::int64_t>(found);
  });
  for (std::int64_t i = 0; i < blocks.count; ++i) {
    if (partial[i] >= 0) return partial[i];
  }
  return -1;
}

void scale(ThreadPool& pool, float* x, float factor, std::int64_t count) {
  split_elements(pool, count,
                 [&](std::int64_t begin, std::int64_t end) { simd().scale(x + begin, factor, size(end - begin)); });
}

void axpy(ThreadPool& pool, float* y, float a, const float* x, std::int64_t count) {
  split_elements(pool, count, [&](std::int64_t begin, std::int64_t end) {
    simd().axpy(y + begin, a, x + begin, size(end - begin));
  });
}

void convert_to_bf16(ThreadPool& pool, std::uint16_t* out, const float* in, std::int64_t count) {
  split_elements(pool, count, [&](std::int64_t begin, std::int64_t end) {
    simd().to_bf16(out + begin, in + begin, size(end - begin));
  });
}

void convert_to_f32(ThreadPool& pool, float* out, const std::uint16_t* in, std::int64_t count) {
  split_elements(pool, count, [&](std::int64_t begin, std::int64_t end) {
    simd().from_bf16(out + begin, in + begin, size(end - begin));
  });
}

}  // namespace trireme::kernels::fast
