#include "tests/parallel/reference_gpt.h"

#include <cmath>
#include <numbers>
#include <string>

#include <trireme/base/check.h>

namespace trireme::test {

namespace {

std::size_t index(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

void add_to(std::vector<double>& x, const std::vector<double>& y) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

}  // namespace

const double* ReferenceGpt::parameter(const std::string& name) const {
  for (int id = 0; id < layout_.count(); ++id) {
    if (layout_.spec(id).name == name) return parameters_->data() + layout_.offset(id);
  }
  detail::check_failed("the model has the parameter", __FILE__, __LINE__, name.c_str());
}

ReferenceGpt::Matrix ReferenceGpt::norm(const Matrix& x, const std::string& name) const {
  const double* gamma = parameter(name + ".weight");
  const double* beta = parameter(name + ".bias");
  const std::int64_t width = config_.width;
  Matrix y(x.size());
  for (std::size_t row = 0; row < x.size() / index(width); ++row) {
    const double* in = x.data() + row * index(width);
    double mean = 0, variance = 0;
    for (std::int64_t i = 0; i < width; ++i) mean += in[i] / static_cast<double>(width);
    for (std::int64_t i = 0; i < width; ++i) variance += (in[i] - mean) * (in[i] - mean) / static_cast<double>(width);
    for (std::int64_t i = 0; i < width; ++i) {
      y[row * index(width) + index(i)] = (in[i] - mean) / std::sqrt(variance + 1e-5) * gamma[i] + beta[i];
    }
  }
  return y;
}

ReferenceGpt::Matrix ReferenceGpt::linear(const Matrix& x, const std::string& name, std::int64_t in,
                                          std::int64_t out) const {
  const double* weight = parameter(name + ".weight");
  const double* bias = parameter(name + ".bias");
  const std::int64_t rows = static_cast<std::int64_t>(x.size()) / in;
  Matrix y(index(rows * out));
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t o = 0; o < out; ++o) {
      double sum = bias[o];
      for (std::int64_t i = 0; i < in; ++i) sum += x[index(r * in + i)] * weight[o * in + i];
      y[index(r * out + o)] = sum;
    }
  }
  return y;
}

ReferenceGpt::Matrix ReferenceGpt::attention(const Matrix& qkv, std::int64_t tokens) const {
  const std::int64_t width = config_.width, head_dim = width / config_.heads;
  Matrix out(index(tokens * width), 0.0);
  for (std::int64_t h = 0; h < config_.heads; ++h) {
    for (std::int64_t t = 0; t < tokens; ++t) {
      const double* q = qkv.data() + t * 3 * width + h * head_dim;
      std::vector<double> weights;
      double total = 0;
      for (std::int64_t s = 0; s <= t; ++s) {
        const double* k = qkv.data() + s * 3 * width + width + h * head_dim;
        double score = 0;
        for (std::int64_t d = 0; d < head_dim; ++d) score += q[d] * k[d];
        weights.push_back(std::exp(score / std::sqrt(static_cast<double>(head_dim))));
        total += weights.back();
      }
      for (std::int64_t s = 0; s <= t; ++s) {
        const double* v = qkv.data() + s * 3 * width + 2 * width + h * head_dim;
        for (std::int64_t d = 0; d < head_dim; ++d) {
          out[index(t * width + h * head_dim + d)] += weights[index(s)] / total * v[d];
        }
      }
    }
  }
  return out;
}

double ReferenceGpt::sequence_loss(const std::int32_t* tokens, const std::int32_t* targets, std::int64_t count) const {
  const std::int64_t width = config_.width;
  Matrix x(index(count * width));
  const double* token_table = parameter("transformer.wte");
  const double* position_table = parameter("transformer.wpe");
  for (std::int64_t t = 0; t < count; ++t) {
    for (std::int64_t i = 0; i < width; ++i) {
      x[index(t * width + i)] = token_table[tokens[t] * width + i] + position_table[t * width + i];
    }
  }
  for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
    const std::string block = "h." + std::to_string(layer);
    const Matrix qkv = linear(norm(x, block + ".ln_1"), block + ".attn.c_attn", width, 3 * width);
    add_to(x, linear(attention(qkv, count), block + ".attn.c_proj", width, width));
    Matrix hidden = linear(norm(x, block + ".ln_2"), block + ".mlp.c_fc", width, 4 * width);
    for (double& value : hidden) value = gelu(value);
    add_to(x, linear(hidden, block + ".mlp.c_proj", 4 * width, width));
  }
  x = norm(x, "ln_f");
  const double* head = config_.tied ? token_table : parameter("head.weight");
  double loss = 0;
  for (std::int64_t t = 0; t < count; ++t) {
    if (targets[t] == kIgnoredTarget) continue;
    double total = 0, target = 0;
    for (std::int64_t v = 0; v < config_.vocabulary; ++v) {
      double logit = 0;
      for (std::int64_t i = 0; i < width; ++i) logit += x[index(t * width + i)] * head[v * width + i];
      total += std::exp(logit);
      if (v == targets[t]) target = logit;
    }
    loss += std::log(total) - target;
  }
  return loss;
}

double ReferenceGpt::loss_sum(const std::vector<double>& parameters, const std::vector<std::int32_t>& tokens,
                              const std::vector<std::int32_t>& targets, std::int64_t sequences,
                              std::int64_t tokens_per_sequence) {
  parameters_ = &parameters;
  double loss = 0;
  for (std::int64_t s = 0; s < sequences; ++s) {
    loss += sequence_loss(tokens.data() + s * tokens_per_sequence, targets.data() + s * tokens_per_sequence,
                          tokens_per_sequence);
  }
  return loss;
}

}  // namespace trireme::test
