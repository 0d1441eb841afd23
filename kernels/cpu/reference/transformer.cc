// The reference set's products and layers: layers.h for float. They run on the calling
// thread, whatever the pool.
#include "kernels/cpu/kernel_set.h"
#include "kernels/cpu/reference/layers.h"

#include <trireme/base/check.h>

namespace trireme::kernels::reference {
namespace {

bool rounded(Precision precision) {
  return precision == Precision::bf16;
}

void check_tokens(const std::int32_t* tokens, const EmbeddingShape& shape) {
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    TRIREME_CHECK(tokens[r] >= 0 && tokens[r] < shape.vocabulary, "a token lies in the vocabulary of its embedding");
  }
}

}  // namespace

void matmul(ThreadPool&, const Matmul& call) {
  const bool low = rounded(call.precision);
  const MatrixView<float> a{call.a, call.transpose_a ? 1 : call.lda, call.transpose_a ? call.lda : 1, low};
  const MatrixView<float> b{call.b, call.transpose_b ? 1 : call.ldb, call.transpose_b ? call.ldb : 1, low};
  for (std::int64_t i = 0; i < call.m; ++i) {
    for (std::int64_t j = 0; j < call.n; ++j) {
      double sum = 0;
      for (std::int64_t p = 0; p < call.k; ++p) sum += a.at(i, p) * b.at(p, j);
      float& c = call.c[i * call.ldc + j];
      const double before = call.beta == 0 ? 0 : static_cast<double>(call.beta) * static_cast<double>(c);
      const double bias = call.bias == nullptr ? 0 : static_cast<double>(call.bias[j]);
      c = static_cast<float>(static_cast<double>(call.alpha) * sum + before + bias);
    }
  }
}

void linear_forward(ThreadPool&, float* y, const float* x, const float* w, const float* bias, LinearShape shape,
                    Precision precision) {
  linear(y, x, w, bias, shape, rounded(precision));
}

void linear_backward_input(ThreadPool&, float* dx, const float* dy, const float* w, LinearShape shape,
                           Precision precision, bool accumulate) {
  linear_input(dx, dy, w, shape, rounded(precision), accumulate);
}

void linear_backward_weight(ThreadPool&, float* dw, float* dbias, const float* dy, const float* x, LinearShape shape,
                            Precision precision) {
  linear_weight(dw, dbias, dy, x, shape, rounded(precision));
}

void embedding_forward(ThreadPool&, float* out, const float* token_table, const float* position_table,
                       const std::int32_t* tokens, EmbeddingShape shape) {
  check_tokens(tokens, shape);
  embedding(out, token_table, position_table, tokens, shape);
}

void embedding_backward_weight(ThreadPool&, float* d_token_table, float* d_position_table, const float* dout,
                               const std::int32_t* tokens, EmbeddingShape shape) {
  check_tokens(tokens, shape);
  embedding_weight(d_token_table, d_position_table, dout, tokens, shape);
}

void layer_norm_forward(ThreadPool&, float* y, float* mean, float* rstd, const float* x, const float* gamma,
                        const float* beta, std::int64_t rows, std::int64_t dim, float epsilon) {
  layer_norm(y, mean, rstd, x, gamma, beta, rows, dim, static_cast<double>(epsilon));
}

void layer_norm_backward_input(ThreadPool&, float* dx, const float* add, const float* dy, const float* x,
                               const float* gamma, const float* mean, const float* rstd, std::int64_t rows,
                               std::int64_t dim) {
  layer_norm_input(dx, add, dy, x, gamma, mean, rstd, rows, dim);
}

void layer_norm_backward_weight(ThreadPool&, float* dgamma, float* dbeta, const float* dy, const float* x,
                                const float* mean, const float* rstd, std::int64_t rows, std::int64_t dim) {
  layer_norm_weight(dgamma, dbeta, dy, x, mean, rstd, rows, dim);
}

void gelu_forward(ThreadPool&, float* y, const float* x, std::int64_t count, Gelu kind) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = static_cast<float>(gelu(static_cast<double>(x[i]), kind));
}

void gelu_backward(ThreadPool&, float* dx, const float* dy, const float* x, std::int64_t count, Gelu kind) {
  for (std::int64_t i = 0; i < count; ++i) {
    dx[i] = static_cast<float>(static_cast<double>(dy[i]) * gelu_derivative(static_cast<double>(x[i]), kind));
  }
}

void residual_add(ThreadPool&, float* out, const float* a, const float* b, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
}

void attention_forward(ThreadPool&, float* out, float* log_sum_exp, const float* q, const float* k, const float* v,
                       AttentionShape shape) {
  attention(out, log_sum_exp, q, k, v, shape);
}

void attention_backward_input(ThreadPool&, float* dq, float* dk, float* dv, const float* dout, const float* out,
                              const float* log_sum_exp, const float* q, const float* k, const float* v,
                              AttentionShape shape) {
  attention_input(dq, dk, dv, dout, out, log_sum_exp, q, k, v, shape);
}

}  // namespace trireme::kernels::reference
