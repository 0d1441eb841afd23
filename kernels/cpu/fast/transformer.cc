// Embedding, layer norm, GELU, residual addition and attention: the splits over the pool.
#include "kernels/cpu/fast/split.h"
#include "kernels/cpu/kernel_set.h"
#include "kernels/cpu/simd/simd_set.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <trireme/base/check.h>

namespace trireme::kernels::fast {
namespace {

std::size_t size(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

// Columns of a matrix, in whole groups of four vectors: each thread sums its own columns
// over all rows, in row order.
template <class Body>
void split_columns(ThreadPool& pool, std::int64_t rows, std::int64_t columns, const Body& body) {
  split(pool, columns, rows <= 0 ? columns : std::max<std::int64_t>(1, kGrainElements / rows), 32, body);
}

const float* offset(const float* pointer, std::int64_t by) {
  return pointer == nullptr ? nullptr : pointer + by;
}
float* offset(float* pointer, std::int64_t by) {
  return pointer == nullptr ? nullptr : pointer + by;
}

std::int64_t position_of(const EmbeddingShape& shape, std::int64_t row) {
  return shape.position + row % shape.tokens_per_sequence;
}

void check_token(std::int32_t token, const EmbeddingShape& shape) {
  TRIREME_CHECK(token >= 0 && token < shape.vocabulary, "a token lies in the vocabulary of its embedding");
}

AttentionHead head_of(const float* q, const float* k, const float* v, const AttentionShape& shape, std::int64_t b,
                      std::int64_t h) {
  const std::int64_t at = b * shape.tokens * shape.qkv_stride + h * shape.head_dim;
  return {.q = q + at,
          .k = k + at,
          .v = v + at,
          .tokens = shape.tokens,
          .head_dim = shape.head_dim,
          .qkv_stride = shape.qkv_stride,
          .out_stride = shape.out_stride,
          .scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim))};
}

void check(const AttentionShape& shape) {
  TRIREME_CHECK(shape.head_dim >= 1 && shape.head_dim <= kHeadDimMax, "head_dim is between 1 and kHeadDimMax");
}

}  // namespace

void embedding_forward(ThreadPool& pool, float* out, const float* token_table, const float* position_table,
                       const std::int32_t* tokens, EmbeddingShape shape) {
  const auto row_bytes = size(shape.dim) * sizeof(float);
  split_rows(pool, shape.rows, shape.dim, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      check_token(tokens[r], shape);
      float* to = out + r * shape.dim;
      const float* token = token_table + tokens[r] * shape.dim;
      if (position_table == nullptr) {
        std::memcpy(to, token, row_bytes);
      } else {
        simd().add(to, token, position_table + position_of(shape, r) * shape.dim, size(shape.dim));
      }
    }
  });
}

void embedding_backward_weight(ThreadPool& pool, float* d_token_table, float* d_position_table, const float* dout,
                               const std::int32_t* tokens, EmbeddingShape shape) {
  split_columns(pool, shape.rows, shape.dim, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = 0; r < shape.rows; ++r) {
      check_token(tokens[r], shape);
      const float* from = dout + r * shape.dim + begin;
      const std::size_t width = size(end - begin);
      if (d_token_table != nullptr) {
        float* to = d_token_table + tokens[r] * shape.dim + begin;
        simd().add(to, to, from, width);
      }
      if (d_position_table != nullptr) {
        float* to = d_position_table + position_of(shape, r) * shape.dim + begin;
        simd().add(to, to, from, width);
      }
    }
  });
}

void layer_norm_forward(ThreadPool& pool, float* y, float* mean, float* rstd, const float* x, const float* gamma,
                        const float* beta, std::int64_t rows, std::int64_t dim, float epsilon) {
  split_rows(pool, rows, dim, [&](std::int64_t begin, std::int64_t end) {
    simd().layer_norm(y + begin * dim, offset(mean, begin), offset(rstd, begin), x + begin * dim, gamma, beta,
                      size(end - begin), size(dim), epsilon);
  });
}

void layer_norm_backward_input(ThreadPool& pool, float* dx, const float* add, const float* dy, const float* x,
                               const float* gamma, const float* mean, const float* rstd, std::int64_t rows,
                               std::int64_t dim) {
  split_rows(pool, rows, dim, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t at = begin * dim;
    simd().layer_norm_backward(dx + at, offset(add, at), dy + at, x + at, gamma, mean + begin, rstd + begin,
                               size(end - begin), size(dim));
  });
}

void layer_norm_backward_weight(ThreadPool& pool, float* dgamma, float* dbeta, const float* dy, const float* x,
                                const float* mean, const float* rstd, std::int64_t rows, std::int64_t dim) {
  split_columns(pool, rows, dim, [&](std::int64_t begin, std::int64_t end) {
    simd().layer_norm_weight(dgamma + begin, dbeta + begin, dy + begin, x + begin, mean, rstd, size(rows), size(dim),
                             size(end - begin));
  });
}

void gelu_forward(ThreadPool& pool, float* y, const float* x, std::int64_t count, Gelu kind) {
  const auto function = kind == Gelu::tanh ? simd().gelu_tanh : simd().gelu_exact;
  split_elements(pool, count,
                 [&](std::int64_t begin, std::int64_t end) { function(y + begin, x + begin, size(end - begin)); });
}

void gelu_backward(ThreadPool& pool, float* dx, const float* dy, const float* x, std::int64_t count, Gelu kind) {
  const auto function = kind == Gelu::tanh ? simd().gelu_tanh_backward : simd().gelu_exact_backward;
  split_elements(pool, count, [&](std::int64_t begin, std::int64_t end) {
    function(dx + begin, dy + begin, x + begin, size(end - begin));
  });
}

void residual_add(ThreadPool& pool, float* out, const float* a, const float* b, std::int64_t count) {
  split_elements(pool, count, [&](std::int64_t begin, std::int64_t end) {
    simd().add(out + begin, a + begin, b + begin, size(end - begin));
  });
}

// One task per head and tile of queries.
void attention_forward(ThreadPool& pool, float* out, float* log_sum_exp, const float* q, const float* k, const float* v,
                       AttentionShape shape) {
  if (shape.batch * shape.heads * shape.tokens == 0) return;
  check(shape);
  const std::int64_t tile = simd().attention_tile(shape.head_dim);
  const std::int64_t tiles = (shape.tokens + tile - 1) / tile;
  pool.run(size(shape.batch * shape.heads * tiles), [&](std::size_t task) {
    // The longest tiles, the last ones of each sequence, go first.
    const std::int64_t heads = shape.batch * shape.heads;
    const std::int64_t begin = (tiles - 1 - static_cast<std::int64_t>(task) / heads) * tile;
    const std::int64_t head = static_cast<std::int64_t>(task) % heads;
    const std::int64_t b = head / shape.heads;
    const std::int64_t h = head % shape.heads;
    simd().attention(out + b * shape.tokens * shape.out_stride + h * shape.head_dim,
                     offset(log_sum_exp, head * shape.tokens), head_of(q, k, v, shape, b, h), begin,
                     std::min(begin + tile, shape.tokens));
  });
}

// One task per head, because dk and dv sum over queries while dq sums over keys.
void attention_backward_input(ThreadPool& pool, float* dq, float* dk, float* dv, const float* dout, const float* out,
                              const float* log_sum_exp, const float* q, const float* k, const float* v,
                              AttentionShape shape) {
  if (shape.batch * shape.heads * shape.tokens == 0) return;
  check(shape);
  pool.run(size(shape.batch * shape.heads), [&](std::size_t task) {
    const std::int64_t b = static_cast<std::int64_t>(task) / shape.heads;
    const std::int64_t h = static_cast<std::int64_t>(task) % shape.heads;
    const std::int64_t at = b * shape.tokens * shape.qkv_stride + h * shape.head_dim;
    const std::int64_t out_at = b * shape.tokens * shape.out_stride + h * shape.head_dim;
    simd().attention_backward(head_of(q, k, v, shape, b, h),
                              {.dq = dq + at,
                               .dk = dk + at,
                               .dv = dv + at,
                               .dout = dout + out_at,
                               .out = out + out_at,
                               .log_sum_exp = log_sum_exp + static_cast<std::int64_t>(task) * shape.tokens});
  });
}

}  // namespace trireme::kernels::fast
