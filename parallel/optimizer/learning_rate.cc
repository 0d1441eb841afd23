#include <trireme/parallel/learning_rate.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace trireme {

double CosineSchedule::at(std::int64_t tokens) const {
  const auto seen = static_cast<double>(tokens);
  const auto warmup = static_cast<double>(warmup_tokens);
  if (tokens < warmup_tokens) return peak * seen / warmup;
  const double span = static_cast<double>(total_tokens) - warmup;
  if (span <= 0) return tokens >= total_tokens ? minimum : peak;
  const double progress = std::min(1.0, (seen - warmup) / span);
  return minimum + (peak - minimum) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
}

}  // namespace trireme
