#include <cmath>

#include <fmt/core.h>

#include <trireme/kernels/transformer.h>
#include <trireme/parallel/layers.h>
#include <trireme/parallel/model.h>

namespace trireme {

namespace {

constexpr float kDeviation = 0.02f;

// x + projection(attention(norm(x)))
std::unique_ptr<Sequential> attention_branch(const GptConfig& config, float projection_deviation) {
  auto branch = std::make_unique<Sequential>();
  branch->add<LayerNorm>("ln_1", config.width)
      .add<Linear>("attn.c_attn", config.width, 3 * config.width, kDeviation)
      .add<CausalAttention>("attn", config.width, config.heads)
      .add<Linear>("attn.c_proj", config.width, config.width, projection_deviation);
  return branch;
}

// x + projection(gelu(expansion(norm(x))))
std::unique_ptr<Sequential> feed_forward_branch(const GptConfig& config, float projection_deviation) {
  auto branch = std::make_unique<Sequential>();
  branch->add<LayerNorm>("ln_2", config.width)
      .add<Linear>("mlp.c_fc", config.width, 4 * config.width, kDeviation)
      .add<GeluLayer>("mlp.gelu")
      .add<Linear>("mlp.c_proj", 4 * config.width, config.width, projection_deviation);
  return branch;
}

Status check_positive(std::string_view name, std::int64_t value, std::int64_t largest) {
  if (value >= 1 && value <= largest) return Status::ok();
  return invalid_argument(fmt::format("model: {} is {}; expected 1 to {}", name, value, largest));
}

// The divisor of `width` nearest to `heads` that the attention kernel takes.
std::int64_t nearest_heads(std::int64_t width, std::int64_t heads) {
  std::int64_t best = width;
  for (std::int64_t h = 1; h <= width; ++h) {
    if (width % h != 0 || width / h > kernels::kHeadDimMax) continue;
    if (std::abs(h - heads) < std::abs(best - heads)) best = h;
  }
  return best;
}

}  // namespace

Status GptConfig::check() const {
  TRIREME_RETURN_IF_ERROR(check_positive("layers", layers, 10'000));
  TRIREME_RETURN_IF_ERROR(check_positive("dim", width, 1 << 20));
  TRIREME_RETURN_IF_ERROR(check_positive("heads", heads, 1 << 20));
  TRIREME_RETURN_IF_ERROR(check_positive("seq", tokens, 1 << 24));
  TRIREME_RETURN_IF_ERROR(check_positive("vocabulary", vocabulary, 1 << 24));
  if (width % heads != 0 || width / heads > kernels::kHeadDimMax) {
    return invalid_argument(
        fmt::format("model: {} heads do not divide dim {} into equal parts of at most {}; the nearest number of heads "
                    "that does is {}",
                    heads, width, kernels::kHeadDimMax, nearest_heads(width, heads)));
  }
  return Status::ok();
}

double GptConfig::flops_per_token() const {
  const auto w = static_cast<double>(width);
  const double products = static_cast<double>(layers) * 12 * w * w + w * static_cast<double>(vocabulary);
  // Scores and values, half of the square thanks to causality.
  const double attention = static_cast<double>(layers) * w * static_cast<double>(tokens);
  return 6 * (products + attention);
}

Result<std::unique_ptr<Model>> make_gpt(const GptConfig& config) {
  TRIREME_RETURN_IF_ERROR(config.check());
  const float projection_deviation = kDeviation / std::sqrt(2.0f * static_cast<float>(config.layers));
  auto body = std::make_unique<Sequential>();
  auto embedding = std::make_unique<Embedding>(config.vocabulary, config.tokens, config.width);
  const Embedding* tied_table = config.tied ? embedding.get() : nullptr;
  body->add("transformer", std::move(embedding));
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string name = fmt::format("h.{}", layer);
    body->add<Residual>(name, attention_branch(config, projection_deviation));
    body->add<Residual>(name, feed_forward_branch(config, projection_deviation));
  }
  body->add<LayerNorm>("ln_f", config.width);
  return std::make_unique<Model>(std::move(body), LossHead(config.width, config.vocabulary), tied_table);
}

}  // namespace trireme
