// Causal attention of one head, in tiles of `tile` queries by `tile` keys.
//
// Forward, for each tile of queries: for each tile of keys up to the diagonal,
//   S = Q K^T; m' = max(m, rowmax S); P = exp(S - m'); l = l e^(m - m') + rowsum P;
//   O = O e^(m - m') + P V;
// and at the end out = O / l, log_sum_exp = m + log l.
// Backward, for each tile of keys: for each tile of queries from the diagonal on,
//   P = exp(S - log_sum_exp); dV += P^T dO; dP = dO V^T; dS = P (dP - rowsum(dO O)) scale;
//   dK += dS^T Q; dQ += dS K.
// Tiles are copied into dense, zero-padded buffers on the stack first: rows of head_dim
// rounded up to whole vectors or, transposed, of as many keys as a tile has. Work is about 4 T^2 / 2 head_dim
// operations forward and 10 T^2 / 2 head_dim backward; memory does not grow with T.
// Source: Dao, "FlashAttention-2", 2023.
// Compiled once per instruction set; see small_float.h.
#pragma once

#include "kernels/cpu/simd/math.h"
#include "kernels/cpu/simd/simd_set.h"
#include "kernels/cpu/simd/tile_product.h"

namespace trireme::kernels {
namespace {

constexpr std::size_t kTileMax = 64;
constexpr std::size_t kTileElements = kTileMax * 128;  // Of a buffer of rows of head_dim.

std::size_t padded(std::size_t count) {
  return (count + kLanes - 1) / kLanes * kLanes;
}

// 64 rows up to head dimension 128, 32 rows up to 256.
std::int64_t tile_rows(std::int64_t head_dim) {
  return head_dim <= 128 ? 64 : 32;
}

struct TileBuffer {
  alignas(64) float at[kTileElements];
};
struct ScoreBuffer {
  alignas(64) float at[kTileMax * kTileMax];
};

// rows x width from `from` into dense rows of `padded_width`, zeros beyond width.
void pack(TileBuffer& to, const float* from, std::int64_t stride, std::size_t rows, std::size_t width) {
  const std::size_t padded_width = padded(width);
  for (std::size_t r = 0; r < rows; ++r) {
    const float* source = from + static_cast<std::int64_t>(r) * stride;
    for_vectors(width, [&](std::size_t i, std::size_t lanes) {
      store(to.at + r * padded_width + i, load_lanes(source + i, lanes));
    });
  }
}

// Eight by eight in registers: pairs, then quadruples of rows interleaved.
inline void transpose_block(Vec (&v)[kLanes]) {
  Vec pair[kLanes], quad[kLanes];
  for (std::size_t i = 0; i < kLanes; i += 2) {
    pair[i] = __builtin_shufflevector(v[i], v[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    pair[i + 1] = __builtin_shufflevector(v[i], v[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (std::size_t i = 0; i < kLanes; i += 4) {
    for (std::size_t j = 0; j < 2; ++j) {
      quad[i + 2 * j] = __builtin_shufflevector(pair[i + j], pair[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      quad[i + 2 * j + 1] = __builtin_shufflevector(pair[i + j], pair[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  }
  for (std::size_t i = 0; i < 4; ++i) {
    v[i] = __builtin_shufflevector(quad[i], quad[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    v[i + 4] = __builtin_shufflevector(quad[i], quad[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

// The transpose: `width` rows of `row_length` elements, zeros beyond `rows` up to a whole vector.
void pack_transposed(TileBuffer& to, const float* from, std::int64_t stride, std::size_t rows, std::size_t width,
                     std::size_t row_length) {
  for (std::size_t r = 0; r < rows; r += kLanes) {
    for_vectors(width, [&](std::size_t d, std::size_t lanes) {
      Vec block[kLanes];
      for (std::size_t i = 0; i < kLanes; ++i) {
        block[i] = r + i < rows ? load_lanes(from + static_cast<std::int64_t>(r + i) * stride + d, lanes) : Vec{};
      }
      transpose_block(block);
      for (std::size_t i = 0; i < lanes; ++i) store(to.at + (d + i) * row_length + r, block[i]);
    });
  }
}

// The first `valid` of a row of scores become exp(scale * s - shift), the others up to
// `width` become 0. Returns the sum.
float exponentiate_scores(float* s, std::size_t valid, std::size_t width, float scale, float shift) {
  Vec sum = {};
  for (std::size_t i = 0; i < width; i += kLanes) {
    Vec e = {};
    if (i < valid) {
      e = first_lanes(exponential(load(s + i) * scale - shift), Vec{}, valid - i);
    }
    sum += e;
    store(s + i, e);
  }
  return sum_lanes(sum);
}

float largest_score(const float* s, std::size_t valid) {
  Vec largest = splat(-__builtin_inff());
  std::size_t i = 0;
  for (; i + kLanes <= valid; i += kLanes) largest = max(load(s + i), largest);
  float result = max_lanes(largest);
  for (; i < valid; ++i) result = s[i] > result ? s[i] : result;
  return result;
}

void scale_row(float* row, float factor, std::size_t width) {
  for (std::size_t i = 0; i < width; i += kLanes) store(row + i, load(row + i) * factor);
}

inline std::size_t smaller(std::size_t a, std::size_t b) {
  return a < b ? a : b;
}

// One tile of queries [begin, begin + rows).
void attention_rows(float* out, float* log_sum_exp, const AttentionHead& head, std::size_t begin, std::size_t rows) {
  const auto width = static_cast<std::size_t>(head.head_dim);
  const std::size_t padded_width = padded(width);
  const auto tile = static_cast<std::size_t>(tile_rows(head.head_dim));
  TileBuffer keys, values, sums;
  ScoreBuffer scores;
  float maximum[kTileMax], total[kTileMax];
  for (std::size_t r = 0; r < rows; ++r) {
    maximum[r] = -__builtin_inff();
    total[r] = 0;
  }
  const auto stride = static_cast<std::size_t>(head.qkv_stride);
  const TileOperand q{head.q + begin * stride, stride, 1};
  for (std::size_t k0 = 0; k0 < begin + rows; k0 += tile) {
    const std::size_t columns = smaller(tile, begin + rows - k0);
    pack_transposed(keys, head.k + k0 * stride, head.qkv_stride, columns, width, tile);
    pack(values, head.v + k0 * stride, head.qkv_stride, columns, width);
    tile_product(scores.at, kTileMax, q, keys.at, tile, rows, padded(columns), width, false);
    for (std::size_t r = 0; r < rows; ++r) {
      float* s = scores.at + r * kTileMax;
      const std::size_t valid = smaller(columns, begin + r + 1 - k0);
      const float largest = largest_score(s, valid) * head.scale;
      const float previous = maximum[r];
      maximum[r] = largest > previous ? largest : previous;
      const float sum = exponentiate_scores(s, valid, padded(columns), head.scale, maximum[r]);
      const float correction = k0 == 0 ? 0.0f : exponential(splat(previous - maximum[r]))[0];
      total[r] = total[r] * correction + sum;
      if (k0 != 0) scale_row(sums.at + r * padded_width, correction, padded_width);
    }
    tile_product(sums.at, padded_width, {scores.at, kTileMax, 1}, values.at, padded_width, rows, padded_width, columns,
                 k0 != 0);
  }
  for (std::size_t r = 0; r < rows; ++r) {
    float* to = out + (begin + r) * static_cast<std::size_t>(head.out_stride);
    for_vectors(width, [&](std::size_t i, std::size_t lanes) {
      store_lanes(to + i, load(sums.at + r * padded_width + i) / total[r], lanes);
    });
    if (log_sum_exp != nullptr) log_sum_exp[begin + r] = maximum[r] + __builtin_logf(total[r]);
  }
}

void attention_loop(float* out, float* log_sum_exp, const AttentionHead& head, std::int64_t begin, std::int64_t end) {
  const std::int64_t tile = tile_rows(head.head_dim);
  for (std::int64_t at = begin; at < end; at += tile) {
    const std::int64_t rows = end - at < tile ? end - at : tile;
    attention_rows(out, log_sum_exp, head, static_cast<std::size_t>(at), static_cast<std::size_t>(rows));
  }
}

// rows of a dense tile to memory: written, or added.
void unpack(float* to, std::int64_t stride, const TileBuffer& from, std::size_t rows, std::size_t width,
            bool accumulate) {
  for (std::size_t r = 0; r < rows; ++r) {
    float* row = to + static_cast<std::int64_t>(r) * stride;
    for_vectors(width, [&](std::size_t i, std::size_t lanes) {
      Vec value = load(from.at + r * padded(width) + i);
      if (accumulate) value += load_lanes(row + i, lanes);
      store_lanes(row + i, value, lanes);
    });
  }
}

float dot(const float* a, const float* b, std::size_t count) {
  Vec sum = {};
  for_vectors(count, [&](std::size_t i, std::size_t lanes) {
    sum = mul_add(load_lanes(a + i, lanes), load_lanes(b + i, lanes), sum);
  });
  return sum_lanes(sum);
}

// dS = P (dP - delta) scale, in place of dP.
void score_gradient(float* dp, const float* p, float delta, float scale, std::size_t width) {
  for (std::size_t i = 0; i < width; i += kLanes) {
    store(dp + i, load(p + i) * (load(dp + i) - delta) * scale);
  }
}

// The buffers of one tile of keys.
struct KeyTile {
  TileBuffer keys, keys_transposed, values_transposed, dk, dv;
  std::size_t begin, columns;
};

// The part of backward between one tile of keys and the queries [begin, begin + rows).
void attention_backward_tile(const AttentionHead& head, const AttentionGradients& g, KeyTile& tile, std::size_t begin,
                             std::size_t rows) {
  const auto width = static_cast<std::size_t>(head.head_dim);
  const std::size_t padded_width = padded(width);
  const std::size_t padded_columns = padded(tile.columns);
  const auto q_at = begin * static_cast<std::size_t>(head.qkv_stride);
  const auto out_at = begin * static_cast<std::size_t>(head.out_stride);
  const auto length = static_cast<std::size_t>(tile_rows(head.head_dim));
  TileBuffer queries, douts, dq;
  ScoreBuffer p, dp;
  pack(queries, head.q + q_at, head.qkv_stride, rows, width);
  pack(douts, g.dout + out_at, head.out_stride, rows, width);
  tile_product(p.at, kTileMax, {queries.at, padded_width, 1}, tile.keys_transposed.at, length, rows, padded_columns,
               width, false);
  tile_product(dp.at, kTileMax, {douts.at, padded_width, 1}, tile.values_transposed.at, length, rows, padded_columns,
               width, false);
  for (std::size_t r = 0; r < rows; ++r) {
    const std::size_t valid = smaller(tile.columns, begin + r + 1 - tile.begin);
    float* row = p.at + r * kTileMax;
    exponentiate_scores(row, valid, padded_columns, head.scale, g.log_sum_exp[begin + r]);
    const float delta =
        dot(douts.at + r * padded_width, g.out + out_at + r * static_cast<std::size_t>(head.out_stride), width);
    score_gradient(dp.at + r * kTileMax, row, delta, head.scale, padded_columns);
  }
  const bool started = begin != tile.begin;
  tile_product(tile.dv.at, padded_width, {p.at, 1, kTileMax}, douts.at, padded_width, tile.columns, padded_width, rows,
               started);
  tile_product(tile.dk.at, padded_width, {dp.at, 1, kTileMax}, queries.at, padded_width, tile.columns, padded_width,
               rows, started);
  tile_product(dq.at, padded_width, {dp.at, kTileMax, 1}, tile.keys.at, padded_width, rows, padded_width, tile.columns,
               false);
  unpack(g.dq + q_at, head.qkv_stride, dq, rows, width, tile.begin != 0);
}

void attention_backward_loop(const AttentionHead& head, const AttentionGradients& g) {
  const auto tokens = static_cast<std::size_t>(head.tokens);
  const auto width = static_cast<std::size_t>(head.head_dim);
  const auto rows = static_cast<std::size_t>(tile_rows(head.head_dim));
  KeyTile tile;
  for (std::size_t k0 = 0; k0 < tokens; k0 += rows) {
    tile.begin = k0;
    tile.columns = smaller(rows, tokens - k0);
    const std::size_t at = k0 * static_cast<std::size_t>(head.qkv_stride);
    pack(tile.keys, head.k + at, head.qkv_stride, tile.columns, width);
    pack_transposed(tile.keys_transposed, head.k + at, head.qkv_stride, tile.columns, width, rows);
    pack_transposed(tile.values_transposed, head.v + at, head.qkv_stride, tile.columns, width, rows);
    for (std::size_t q0 = k0; q0 < tokens; q0 += rows) {
      attention_backward_tile(head, g, tile, q0, smaller(rows, tokens - q0));
    }
    unpack(g.dk + at, head.qkv_stride, tile.dk, tile.columns, width, false);
    unpack(g.dv + at, head.qkv_stride, tile.dv, tile.columns, width, false);
  }
}

}  // namespace
}  // namespace trireme::kernels
