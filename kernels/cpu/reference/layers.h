// Reference kernels: the definitions written down as plain loops, for any real type.
// With T = float they are the reference set; tests instantiate T = double, check that by
// finite differences, and hold the fast kernels against it. Sums are in f64.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <type_traits>

#include <trireme/base/float_types.h>
#include <trireme/kernels/cross_entropy.h>
#include <trireme/kernels/matmul.h>
#include <trireme/kernels/transformer.h>

namespace trireme::kernels::reference {

// A matrix seen through two strides; `rounded` reads elements as bf16.
template <class T>
struct MatrixView {
  const T* data;
  std::int64_t row_stride, column_stride;
  bool rounded = false;
  double at(std::int64_t row, std::int64_t column) const {
    const T value = data[row * row_stride + column * column_stride];
    return static_cast<double>(rounded ? static_cast<T>(bf16_to_f32(f32_to_bf16(static_cast<float>(value)))) : value);
  }
};

// C[m, n] (+)= A[m, k] B[k, n] + bias, C dense. bias may be null.
template <class T>
void product(T* c, std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b, const T* bias,
             bool accumulate) {
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t p = 0; p < k; ++p) sum += a.at(i, p) * b.at(p, j);
      if (bias != nullptr) sum += static_cast<double>(bias[j]);
      T& out = c[i * n + j];
      out = static_cast<T>(accumulate ? static_cast<double>(out) + sum : sum);
    }
  }
}

template <class T>
void linear(T* y, const T* x, const T* w, const T* bias, LinearShape s, bool rounded) {
  product<T>(y, s.rows, s.out, s.in, {x, s.in, 1, rounded}, {w, 1, s.in, rounded}, bias, false);
}

template <class T>
void linear_input(T* dx, const T* dy, const T* w, LinearShape s, bool rounded, bool accumulate) {
  product<T>(dx, s.rows, s.in, s.out, {dy, s.out, 1, rounded}, {w, s.in, 1, rounded}, nullptr, accumulate);
}

template <class T>
void linear_weight(T* dw, T* dbias, const T* dy, const T* x, LinearShape s, bool rounded) {
  product<T>(dw, s.out, s.in, s.rows, {dy, 1, s.out, rounded}, {x, s.in, 1, rounded}, nullptr, true);
  for (std::int64_t j = 0; dbias != nullptr && j < s.out; ++j) {
    double sum = 0;
    for (std::int64_t r = 0; r < s.rows; ++r) sum += static_cast<double>(dy[r * s.out + j]);
    dbias[j] += static_cast<T>(sum);
  }
}

template <class T>
void embedding(T* out, const T* token_table, const T* position_table, const std::int32_t* tokens, EmbeddingShape s) {
  for (std::int64_t r = 0; r < s.rows; ++r) {
    const std::int64_t position = s.position + r % s.tokens_per_sequence;
    for (std::int64_t d = 0; d < s.dim; ++d) {
      const T added = position_table == nullptr ? T(0) : position_table[position * s.dim + d];
      out[r * s.dim + d] = token_table[tokens[r] * s.dim + d] + added;
    }
  }
}

template <class T>
void embedding_weight(T* d_token_table, T* d_position_table, const T* dout, const std::int32_t* tokens,
                      EmbeddingShape s) {
  for (std::int64_t r = 0; r < s.rows; ++r) {
    const std::int64_t position = s.position + r % s.tokens_per_sequence;
    for (std::int64_t d = 0; d < s.dim; ++d) {
      if (d_token_table != nullptr) d_token_table[tokens[r] * s.dim + d] += dout[r * s.dim + d];
      if (d_position_table != nullptr) d_position_table[position * s.dim + d] += dout[r * s.dim + d];
    }
  }
}

template <class T>
void layer_norm(T* y, T* mean_out, T* rstd_out, const T* x, const T* gamma, const T* beta, std::int64_t rows,
                std::int64_t dim, double epsilon) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* row = x + r * dim;
    double mean = 0, variance = 0;
    for (std::int64_t d = 0; d < dim; ++d) mean += static_cast<double>(row[d]) / static_cast<double>(dim);
    for (std::int64_t d = 0; d < dim; ++d) {
      const double difference = static_cast<double>(row[d]) - mean;
      variance += difference * difference / static_cast<double>(dim);
    }
    const double rstd = 1 / std::sqrt(variance + epsilon);
    for (std::int64_t d = 0; d < dim; ++d) {
      const double normal = (static_cast<double>(row[d]) - mean) * rstd;
      y[r * dim + d] = static_cast<T>(normal * static_cast<double>(gamma[d]) + static_cast<double>(beta[d]));
    }
    if (mean_out != nullptr) mean_out[r] = static_cast<T>(mean);
    if (rstd_out != nullptr) rstd_out[r] = static_cast<T>(rstd);
  }
}

template <class T>
void layer_norm_input(T* dx, const T* add, const T* dy, const T* x, const T* gamma, const T* mean, const T* rstd,
                      std::int64_t rows, std::int64_t dim) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto m = static_cast<double>(mean[r]);
    const auto s = static_cast<double>(rstd[r]);
    const auto normal = [&](std::int64_t d) { return (static_cast<double>(x[r * dim + d]) - m) * s; };
    const auto g = [&](std::int64_t d) { return static_cast<double>(dy[r * dim + d]) * static_cast<double>(gamma[d]); };
    double mean_g = 0, mean_gn = 0;
    for (std::int64_t d = 0; d < dim; ++d) {
      mean_g += g(d) / static_cast<double>(dim);
      mean_gn += g(d) * normal(d) / static_cast<double>(dim);
    }
    for (std::int64_t d = 0; d < dim; ++d) {
      const double before = add == nullptr ? 0 : static_cast<double>(add[r * dim + d]);
      dx[r * dim + d] = static_cast<T>(before + s * (g(d) - mean_g - normal(d) * mean_gn));
    }
  }
}

template <class T>
void layer_norm_weight(T* dgamma, T* dbeta, const T* dy, const T* x, const T* mean, const T* rstd, std::int64_t rows,
                       std::int64_t dim) {
  for (std::int64_t d = 0; d < dim; ++d) {
    double gamma_sum = 0, beta_sum = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto g = static_cast<double>(dy[r * dim + d]);
      beta_sum += g;
      gamma_sum +=
          g * (static_cast<double>(x[r * dim + d]) - static_cast<double>(mean[r])) * static_cast<double>(rstd[r]);
    }
    dgamma[d] += static_cast<T>(gamma_sum);
    dbeta[d] += static_cast<T>(beta_sum);
  }
}

inline double gelu(double x, Gelu kind) {
  if (kind == Gelu::exact) return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2));
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

inline double gelu_derivative(double x, Gelu kind) {
  if (kind == Gelu::exact) {
    const double density = std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi);
    return 0.5 * (1 + std::erf(x / std::numbers::sqrt2)) + x * density;
  }
  const double slope = std::sqrt(2 / std::numbers::pi);
  const double t = std::tanh(slope * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope * (1 + 3 * 0.044715 * x * x);
}

template <class T>
struct AttentionPlace {
  AttentionShape s;
  std::int64_t b, h;
  std::int64_t qkv(std::int64_t t, std::int64_t d) const {
    return (b * s.tokens + t) * s.qkv_stride + h * s.head_dim + d;
  }
  std::int64_t out(std::int64_t t, std::int64_t d) const {
    return (b * s.tokens + t) * s.out_stride + h * s.head_dim + d;
  }
  std::int64_t row(std::int64_t t) const { return (b * s.heads + h) * s.tokens + t; }
  double score(const T* q, const T* k, std::int64_t t, std::int64_t u) const {
    double sum = 0;
    for (std::int64_t d = 0; d < s.head_dim; ++d) {
      sum += static_cast<double>(q[qkv(t, d)]) * static_cast<double>(k[qkv(u, d)]);
    }
    return sum / std::sqrt(static_cast<double>(s.head_dim));
  }
};

// Calls body(place, t) for every query.
template <class T, class Body>
void for_queries(const AttentionShape& s, const Body& body) {
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t h = 0; h < s.heads; ++h) {
      for (std::int64_t t = 0; t < s.tokens; ++t) body(AttentionPlace<T>{s, b, h}, t);
    }
  }
}

template <class T>
void attention(T* out, T* log_sum_exp, const T* q, const T* k, const T* v, AttentionShape s) {
  for_queries<T>(s, [&](const AttentionPlace<T>& at, std::int64_t t) {
    double largest = at.score(q, k, t, 0);
    for (std::int64_t u = 1; u <= t; ++u) largest = std::max(largest, at.score(q, k, t, u));
    double sum = 0;
    for (std::int64_t u = 0; u <= t; ++u) sum += std::exp(at.score(q, k, t, u) - largest);
    const double total = largest + std::log(sum);
    for (std::int64_t d = 0; d < s.head_dim; ++d) out[at.out(t, d)] = 0;
    for (std::int64_t u = 0; u <= t; ++u) {
      const double p = std::exp(at.score(q, k, t, u) - total);
      for (std::int64_t d = 0; d < s.head_dim; ++d) {
        out[at.out(t, d)] += static_cast<T>(p * static_cast<double>(v[at.qkv(u, d)]));
      }
    }
    if (log_sum_exp != nullptr) log_sum_exp[at.row(t)] = static_cast<T>(total);
  });
}

template <class T>
void attention_input(T* dq, T* dk, T* dv, const T* dout, const T* out, const T* log_sum_exp, const T* q, const T* k,
                     const T* v, AttentionShape s) {
  for_queries<T>(s, [&](const AttentionPlace<T>& at, std::int64_t t) {
    for (std::int64_t d = 0; d < s.head_dim; ++d) dq[at.qkv(t, d)] = dk[at.qkv(t, d)] = dv[at.qkv(t, d)] = 0;
  });
  const double scale = 1 / std::sqrt(static_cast<double>(s.head_dim));
  for_queries<T>(s, [&](const AttentionPlace<T>& at, std::int64_t t) {
    double delta = 0;
    for (std::int64_t d = 0; d < s.head_dim; ++d) {
      delta += static_cast<double>(dout[at.out(t, d)]) * static_cast<double>(out[at.out(t, d)]);
    }
    for (std::int64_t u = 0; u <= t; ++u) {
      const double p = std::exp(at.score(q, k, t, u) - static_cast<double>(log_sum_exp[at.row(t)]));
      double dp = 0;
      for (std::int64_t d = 0; d < s.head_dim; ++d) {
        dp += static_cast<double>(dout[at.out(t, d)]) * static_cast<double>(v[at.qkv(u, d)]);
      }
      const double ds = p * (dp - delta) * scale;
      for (std::int64_t d = 0; d < s.head_dim; ++d) {
        dv[at.qkv(u, d)] += static_cast<T>(p * static_cast<double>(dout[at.out(t, d)]));
        dq[at.qkv(t, d)] += static_cast<T>(ds * static_cast<double>(k[at.qkv(u, d)]));
        dk[at.qkv(u, d)] += static_cast<T>(ds * static_cast<double>(q[at.qkv(t, d)]));
      }
    }
  });
}

// -log softmax(logits)[target]; the logits become scale * (softmax - onehot(target)).
template <class T>
double cross_entropy_row(T* logits, std::int64_t count, std::int64_t target, double scale) {
  double largest = static_cast<double>(logits[0]);
  for (std::int64_t i = 1; i < count; ++i) largest = std::max(largest, static_cast<double>(logits[i]));
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += std::exp(static_cast<double>(logits[i]) - largest);
  const double total = largest + std::log(sum);
  const double loss = total - static_cast<double>(logits[target]);
  for (std::int64_t i = 0; i < count; ++i) {
    const double p = std::exp(static_cast<double>(logits[i]) - total);
    logits[i] = static_cast<T>(scale * (p - (i == target ? 1 : 0)));
  }
  return loss;
}

}  // namespace trireme::kernels::reference
