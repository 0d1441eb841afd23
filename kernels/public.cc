// The public kernels: each passes its arguments to the active set.
#include "kernels/cpu/kernel_set.h"

namespace trireme::kernels {

void matmul(ThreadPool& pool, const Matmul& call) {
  active_kernels().matmul(pool, call);
}

void linear_forward(ThreadPool& pool, float* y, const float* x, const float* w, const float* bias, LinearShape shape,
                    Precision precision) {
  active_kernels().linear_forward(pool, y, x, w, bias, shape, precision);
}

void linear_backward_input(ThreadPool& pool, float* dx, const float* dy, const float* w, LinearShape shape,
                           Precision precision, bool accumulate) {
  active_kernels().linear_backward_input(pool, dx, dy, w, shape, precision, accumulate);
}

void linear_backward_weight(ThreadPool& pool, float* dw, float* dbias, const float* dy, const float* x,
                            LinearShape shape, Precision precision) {
  active_kernels().linear_backward_weight(pool, dw, dbias, dy, x, shape, precision);
}

void embedding_forward(ThreadPool& pool, float* out, const float* token_table, const float* position_table,
                       const std::int32_t* tokens, EmbeddingShape shape) {
  active_kernels().embedding_forward(pool, out, token_table, position_table, tokens, shape);
}

void embedding_backward_weight(ThreadPool& pool, float* d_token_table, float* d_position_table, const float* dout,
                               const std::int32_t* tokens, EmbeddingShape shape) {
  active_kernels().embedding_backward_weight(pool, d_token_table, d_position_table, dout, tokens, shape);
}

void layer_norm_forward(ThreadPool& pool, float* y, float* mean, float* rstd, const float* x, const float* gamma,
                        const float* beta, std::int64_t rows, std::int64_t dim, float epsilon) {
  active_kernels().layer_norm_forward(pool, y, mean, rstd, x, gamma, beta, rows, dim, epsilon);
}

void layer_norm_backward_input(ThreadPool& pool, float* dx, const float* add, const float* dy, const float* x,
                               const float* gamma, const float* mean, const float* rstd, std::int64_t rows,
                               std::int64_t dim) {
  active_kernels().layer_norm_backward_input(pool, dx, add, dy, x, gamma, mean, rstd, rows, dim);
}

void layer_norm_backward_weight(ThreadPool& pool, float* dgamma, float* dbeta, const float* dy, const float* x,
                                const float* mean, const float* rstd, std::int64_t rows, std::int64_t dim) {
  active_kernels().layer_norm_backward_weight(pool, dgamma, dbeta, dy, x, mean, rstd, rows, dim);
}

void gelu_forward(ThreadPool& pool, float* y, const float* x, std::int64_t count, Gelu kind) {
  active_kernels().gelu_forward(pool, y, x, count, kind);
}

void gelu_backward(ThreadPool& pool, float* dx, const float* dy, const float* x, std::int64_t count, Gelu kind) {
  active_kernels().gelu_backward(pool, dx, dy, x, count, kind);
}

void residual_add(ThreadPool& pool, float* out, const float* a, const float* b, std::int64_t count) {
  active_kernels().residual_add(pool, out, a, b, count);
}

void attention_forward(ThreadPool& pool, float* out, float* log_sum_exp, const float* q, const float* k, const float* v,
                       AttentionShape shape) {
  active_kernels().attention_forward(pool, out, log_sum_exp, q, k, v, shape);
}

void attention_backward_input(ThreadPool& pool, float* dq, float* dk, float* dv, const float* dout, const float* out,
                              const float* log_sum_exp, const float* q, const float* k, const float* v,
                              AttentionShape shape) {
  active_kernels().attention_backward_input(pool, dq, dk, dv, dout, out, log_sum_exp, q, k, v, shape);
}

HeadLoss head_cross_entropy(ThreadPool& pool, const HeadCrossEntropy& call) {
  return active_kernels().head_cross_entropy(pool, call);
}

HeadLoss head_loss(ThreadPool& pool, const HeadCrossEntropy& call) {
  return active_kernels().head_loss(pool, call);
}

void head_logits(ThreadPool& pool, float* logits, const float* h, const float* w, HeadShape shape,
                 Precision precision) {
  active_kernels().head_logits(pool, logits, h, w, shape, precision);
}

void adamw_step(ThreadPool& pool, float* parameter, float* m, float* v, const float* gradient, std::int64_t count,
                const AdamW& options) {
  active_kernels().adamw_step(pool, parameter, m, v, gradient, count, options);
}

double sum_of_squares(ThreadPool& pool, const float* x, std::int64_t count) {
  return active_kernels().sum_of_squares(pool, x, count);
}

void scale(ThreadPool& pool, float* x, float factor, std::int64_t count) {
  active_kernels().scale(pool, x, factor, count);
}

void axpy(ThreadPool& pool, float* y, float a, const float* x, std::int64_t count) {
  active_kernels().axpy(pool, y, a, x, count);
}

std::int64_t find_non_finite(ThreadPool& pool, const float* x, std::int64_t count) {
  return active_kernels().find_non_finite(pool, x, count);
}

void convert_to_bf16(ThreadPool& pool, std::uint16_t* out, const float* in, std::int64_t count) {
  active_kernels().convert_to_bf16(pool, out, in, count);
}

void convert_to_f32(ThreadPool& pool, float* out, const std::uint16_t* in, std::int64_t count) {
  active_kernels().convert_to_f32(pool, out, in, count);
}

}  // namespace trireme::kernels
