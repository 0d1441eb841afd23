// Matrix products by oneDNN, one call per tile on one thread of our pool.
//
// The output is cut into tiles of up to kTileRows rows; each tile runs over k in blocks of
// kDepth. The blocks of both operands are first copied ("staged") into dense blocks on the
// stack whose leading dimension is no power of two, for two reasons:
//  - speed: where rows lie a power of two apart, a column falls into few sets of the cache
//    and oneDNN runs at a third to two thirds of the speed it has on a staged block;
//  - precision bf16: the copy is where values are rounded.
// A copy moves one element per 2 * 128 operations, a few percent. An operand that meets
// only a few rows or columns of the other is not worth it and is read in place.
#include "kernels/cpu/fast/onednn.h"
#include "kernels/cpu/fast/split.h"
#include "kernels/cpu/kernel_set.h"
#include "kernels/cpu/simd/simd_set.h"

#include <algorithm>
#include <cstring>

#include <trireme/base/check.h>

namespace trireme::kernels::fast {
namespace {

constexpr std::int64_t kTileRows = 128;
constexpr std::int64_t kTileColumns = 128;  // Of a staged block of B.
constexpr std::int64_t kDepth = 256;
constexpr std::int64_t kPad = 16;
constexpr std::int64_t kStageElements = std::max((kTileRows + kPad) * kDepth, kTileRows*(kDepth + kPad));

struct Stage {
  alignas(64) float at[kStageElements];
};

// A block of a stored matrix, whichever way it is transposed.
struct Block {
  const float* data;
  std::int64_t stride;
};

// `uses`: how often the product reads each element.
bool must_stage(std::int64_t uses, Precision precision) {
  return precision == Precision::bf16 || uses >= 32;
}

Block stage(Stage& to, Block from, std::int64_t rows, std::int64_t columns, Precision precision) {
  const std::int64_t stride = (columns + kPad - 1) / kPad * kPad + kPad;
  const auto width = static_cast<std::size_t>(columns);
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* source = from.data + r * from.stride;
    float* target = to.at + r * stride;
    if (precision == Precision::bf16) {
      simd().round_to_bf16(target, source, width);
    } else {
      std::memcpy(target, source, width * sizeof(float));
    }
  }
  return {to.at, stride};
}

// C = beta C + bias for a tile.
void prepare_tile(const Matmul& call, Range rows, Range columns) {
  for (std::int64_t i = rows.begin; i < rows.end; ++i) {
    float* c = call.c + i * call.ldc;
    for (std::int64_t j = columns.begin; j < columns.end; ++j) {
      const float start = call.bias == nullptr ? 0.0f : call.bias[j];
      c[j] = call.beta == 0.0f ? start : call.beta * c[j] + start;
    }
  }
}

// The block op(A)[row.., p..] or op(B)[p.., column..] as it is stored.
Block block_of(const float* data, std::int64_t stride, bool transposed, std::int64_t row, std::int64_t column) {
  return {data + (transposed ? column * stride + row : row * stride + column), stride};
}

// One k block of a tile: stages what must be staged, then multiplies.
void multiply_block(const Matmul& call, Range rows, Range columns, Range depth, float beta, Stage& stage_a,
                    Stage& stage_b) {
  Block a = block_of(call.a, call.lda, call.transpose_a, rows.begin, depth.begin);
  const std::int64_t a_rows = call.transpose_a ? depth.size() : rows.size();
  if (must_stage(columns.size(), call.precision)) {
    a = stage(stage_a, a, a_rows, call.transpose_a ? rows.size() : depth.size(), call.precision);
  }
  const bool stages_b = must_stage(rows.size(), call.precision);
  const std::int64_t step = stages_b ? kTileColumns : columns.size();
  for (std::int64_t j = columns.begin; j < columns.end; j += step) {
    const std::int64_t width = std::min(step, columns.end - j);
    Block b = block_of(call.b, call.ldb, call.transpose_b, depth.begin, j);
    if (stages_b) {
      b = stage(stage_b, b, call.transpose_b ? width : depth.size(), call.transpose_b ? depth.size() : width,
                call.precision);
    }
    onednn::sgemm(call.transpose_a, call.transpose_b, rows.size(), width, depth.size(), call.alpha, a.data, a.stride,
                  b.data, b.stride, beta, call.c + rows.begin * call.ldc + j, call.ldc);
  }
}

void multiply_tile(const Matmul& call, Range rows, Range columns) {
  Stage stage_a, stage_b;
  float beta = call.beta;
  if (call.bias != nullptr || call.k == 0) {
    prepare_tile(call, rows, columns);
    beta = 1.0f;
  }
  for (std::int64_t p = 0; p < call.k; p += kDepth) {
    multiply_block(call, rows, columns, {p, std::min(p + kDepth, call.k)}, p == 0 ? beta : 1.0f, stage_a, stage_b);
  }
}

std::int64_t parts(std::int64_t count, std::int64_t size) {
  return (count + size - 1) / size;
}

struct TileGrid {
  std::int64_t row_parts, column_parts;
};

// Tiles of kTileRows by up to 512 columns, smaller while there are fewer than two for
// each thread; never below 32 by 64. Depends on sizes and thread count only.
TileGrid tile_grid(std::int64_t m, std::int64_t n, int threads) {
  std::int64_t rows = kTileRows;
  std::int64_t columns = 512;
  const auto enough = [&] { return threads == 1 || parts(m, rows) * parts(n, columns) >= 2 * threads; };
  while (!enough() && columns > 128) columns /= 2;
  while (!enough() && rows > 32) rows /= 2;
  while (!enough() && columns > 64) columns /= 2;
  return {parts(m, rows), parts(n, columns)};
}

// Parts of whole 16-element groups, so that tile edges fall on cache lines.
Range aligned_part(std::int64_t count, std::int64_t part, std::int64_t of) {
  const Range groups = balanced_part((count + 15) / 16, part, of);
  return {std::min(groups.begin * 16, count), std::min(groups.end * 16, count)};
}

void check(const Matmul& call) {
  TRIREME_CHECK(call.m >= 0 && call.n >= 0 && call.k >= 0, "sizes of a matrix product are not negative");
  TRIREME_CHECK(call.lda >= (call.transpose_a ? call.m : call.k), "lda is at least the width of A as stored");
  TRIREME_CHECK(call.ldb >= (call.transpose_b ? call.k : call.n), "ldb is at least the width of B as stored");
  TRIREME_CHECK(call.ldc >= call.n, "ldc is at least the width of C");
}

}  // namespace

void matmul(ThreadPool& pool, const Matmul& call) {
  check(call);
  if (call.m == 0 || call.n == 0) return;
  const TileGrid grid = tile_grid(call.m, call.n, pool.threads());
  pool.run(static_cast<std::size_t>(grid.row_parts * grid.column_parts), [&](std::size_t task) {
    const auto index = static_cast<std::int64_t>(task);
    const Range rows = balanced_part(call.m, index % grid.row_parts, grid.row_parts);
    const Range columns = aligned_part(call.n, index / grid.row_parts, grid.column_parts);
    if (columns.size() > 0) multiply_tile(call, rows, columns);
  });
}

void linear_forward(ThreadPool& pool, float* y, const float* x, const float* w, const float* bias, LinearShape shape,
                    Precision precision) {
  fast::matmul(pool, {.m = shape.rows,
                      .n = shape.out,
                      .k = shape.in,
                      .a = x,
                      .lda = shape.in,
                      .b = w,
                      .ldb = shape.in,
                      .transpose_b = true,
                      .c = y,
                      .ldc = shape.out,
                      .bias = bias,
                      .precision = precision});
}

void linear_backward_input(ThreadPool& pool, float* dx, const float* dy, const float* w, LinearShape shape,
                           Precision precision, bool accumulate) {
  fast::matmul(pool, {.m = shape.rows,
                      .n = shape.in,
                      .k = shape.out,
                      .a = dy,
                      .lda = shape.out,
                      .b = w,
                      .ldb = shape.in,
                      .c = dx,
                      .ldc = shape.in,
                      .beta = accumulate ? 1.0f : 0.0f,
                      .precision = precision});
}

void linear_backward_weight(ThreadPool& pool, float* dw, float* dbias, const float* dy, const float* x,
                            LinearShape shape, Precision precision) {
  fast::matmul(pool, {.m = shape.out,
                      .n = shape.in,
                      .k = shape.rows,
                      .a = dy,
                      .lda = shape.out,
                      .transpose_a = true,
                      .b = x,
                      .ldb = shape.in,
                      .c = dw,
                      .ldc = shape.in,
                      .beta = 1.0f,
                      .precision = precision});
  if (dbias == nullptr) return;
  const std::int64_t columns = shape.rows == 0 ? shape.out : std::max<std::int64_t>(1, kGrainElements / shape.rows);
  split(pool, shape.out, columns, 32, [&](std::int64_t begin, std::int64_t end) {
    simd().column_sum(dbias + begin, dy + begin, static_cast<std::size_t>(shape.rows),
                      static_cast<std::size_t>(shape.out), static_cast<std::size_t>(end - begin));
  });
}

}  // namespace trireme::kernels::fast
