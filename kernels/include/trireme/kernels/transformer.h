// The layers of a GPT-2-style transformer apart from its products and its loss:
// embedding, layer norm, GELU, residual addition, causal self-attention.
//
// Conventions. Activations are dense f32 matrices [rows, dim], one row per token,
// sequences one after the other. Forward functions write their outputs; backward_input
// functions write the gradient of the input; backward_weight functions add to the
// gradients of the parameters. Gradients of parameters are summed in an order that
// depends on the sizes only.
// Thread safety: safe for calls that write different outputs. Nothing is allocated.
#pragma once

#include <cstdint>

#include <trireme/device/thread_pool.h>

namespace trireme::kernels {

// Token plus position embedding. Row r holds token tokens[r] at position
// `position + r % tokens_per_sequence`.
struct EmbeddingShape {
  std::int64_t rows = 0, dim = 0;
  std::int64_t vocabulary = 0;
  std::int64_t tokens_per_sequence = 1;
  std::int64_t position = 0;  // Of each sequence's first token.
};
// out[rows, dim] = token_table[tokens[r]] + position_table[position of r].
// `position_table` may be null. REQUIRES: 0 <= tokens[r] < vocabulary (checked).
void embedding_forward(ThreadPool& pool, float* out, const float* token_table, const float* position_table,
                       const std::int32_t* tokens, EmbeddingShape shape);
// d_token_table[tokens[r]] += dout[r]; d_position_table likewise. Either may be null.
void embedding_backward_weight(ThreadPool& pool, float* d_token_table, float* d_position_table, const float* dout,
                               const std::int32_t* tokens, EmbeddingShape shape);

// y = (x - mean) * rstd * gamma + beta over each row, rstd = 1 / sqrt(variance + epsilon).
// Saves mean[rows] and rstd[rows] for the backward pass; both may be null in evaluation.
void layer_norm_forward(ThreadPool& pool, float* y, float* mean, float* rstd, const float* x, const float* gamma,
                        const float* beta, std::int64_t rows, std::int64_t dim, float epsilon = 1e-5f);
// dx = add + the gradient through the norm. `add` (the residual path's gradient) may be
// null or equal to dx.
void layer_norm_backward_input(ThreadPool& pool, float* dx, const float* add, const float* dy, const float* x,
                               const float* gamma, const float* mean, const float* rstd, std::int64_t rows,
                               std::int64_t dim);
void layer_norm_backward_weight(ThreadPool& pool, float* dgamma, float* dbeta, const float* dy, const float* x,
                                const float* mean, const float* rstd, std::int64_t rows, std::int64_t dim);

enum class Gelu : std::uint8_t {
  tanh,   // 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))): GPT-2's.
  exact,  // x times the normal distribution function at x.
};
// y may equal x (but the backward pass needs x).
void gelu_forward(ThreadPool& pool, float* y, const float* x, std::int64_t count, Gelu kind = Gelu::tanh);
// dx = dy * gelu'(x); dx may equal dy.
void gelu_backward(ThreadPool& pool, float* dx, const float* dy, const float* x, std::int64_t count,
                   Gelu kind = Gelu::tanh);

// out = a + b; out may equal either.
void residual_add(ThreadPool& pool, float* out, const float* a, const float* b, std::int64_t count);

// Causal multi-head self-attention: o_t = sum over s <= t of softmax_s(q_t . k_s / sqrt(head_dim)) v_s.
// Element d of head h of token t of sequence b lies at [(b * tokens + t) * stride + h * head_dim + d],
// so a fused projection's [rows, 3 * dim] output is read in place: q = qkv, k = qkv + dim,
// v = qkv + 2 * dim, qkv_stride = 3 * dim.
struct AttentionShape {
  std::int64_t batch = 0;   // Sequences.
  std::int64_t tokens = 0;  // Of each sequence.
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;  // At most kHeadDimMax.
  std::int64_t qkv_stride = 0;
  std::int64_t out_stride = 0;
};
inline constexpr std::int64_t kHeadDimMax = 256;
// Saves the log-sum-exp of every row of scores, log_sum_exp[batch, heads, tokens] (null in
// evaluation). The scores are never stored: tiles with an online softmax, as in Dao et al.,
// "FlashAttention", 2022. A task uses up to about 400 KiB of its thread's stack.
void attention_forward(ThreadPool& pool, float* out, float* log_sum_exp, const float* q, const float* k, const float* v,
                       AttentionShape shape);
// Writes dq, dk, dv, laid out like q, k, v (qkv_stride). Recomputes the scores tile by
// tile from log_sum_exp; `out` is what forward wrote.
void attention_backward_input(ThreadPool& pool, float* dq, float* dk, float* dv, const float* dout, const float* out,
                              const float* log_sum_exp, const float* q, const float* k, const float* v,
                              AttentionShape shape);

}  // namespace trireme::kernels
