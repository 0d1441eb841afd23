// Learning-rate schedules as functions of the tokens seen, so that another batch size
// after a resume does not bend them.
#pragma once

#include <cstdint>

namespace trireme {

// Linear from 0 to `peak` over the first `warmup_tokens`, then half a cosine down to
// `minimum` at `total_tokens`, and `minimum` after that.
struct CosineSchedule {
  double peak = 1e-3;
  double minimum = 1e-4;
  std::int64_t warmup_tokens = 0;
  std::int64_t total_tokens = 0;

  // The rate of the step that brings the tokens seen to `tokens`.
  double at(std::int64_t tokens) const;
};

}  // namespace trireme
