#include "examples/gpt/sample.h"

#include <algorithm>
#include <cmath>

#include <trireme/base/philox.h>

namespace trireme::gpt {

std::int32_t draw(std::span<const float> logits, double temperature, double uniform) {
  const auto largest = std::max_element(logits.begin(), logits.end());
  const auto likeliest = static_cast<std::int32_t>(largest - logits.begin());
  if (temperature <= 0) return likeliest;
  double total = 0;
  for (float logit : logits) total += std::exp((logit - *largest) / temperature);
  double left = uniform * total;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    left -= std::exp((logits[i] - *largest) / temperature);
    if (left < 0) return static_cast<std::int32_t>(i);
  }
  return likeliest;  // Rounding left a trace of probability over.
}

Result<std::string> generate(Trainer& trainer, const std::string& prompt, std::int64_t bytes, double temperature,
                             std::uint64_t seed, std::int64_t context) {
  std::vector<std::int32_t> tokens;
  for (char c : prompt) tokens.push_back(static_cast<unsigned char>(c));
  const PhiloxKey key = make_philox_key(seed, static_cast<std::uint32_t>(RandomPurpose::generation), 0);
  std::string text;
  for (std::int64_t n = 0; n < bytes; ++n) {
    const std::size_t read = std::min(tokens.size(), static_cast<std::size_t>(context));
    TRIREME_ASSIGN_OR_RETURN(const std::span<const float> logits,
                             trainer.next_token_logits(std::span(tokens).last(read)));
    tokens.push_back(draw(logits, temperature, philox_uniform(key, 0, static_cast<std::uint64_t>(n))));
    text.push_back(static_cast<char>(tokens.back()));
  }
  return text;
}

std::string printable(const std::string& text) {
  std::string clean = text;
  for (char& c : clean) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\t') || byte >= 0x7f) c = '?';
  }
  return clean;
}

}  // namespace trireme::gpt
