#include "bench/collective_perf/timing.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include <trireme/platform/clock.h>

namespace trireme::bench {
namespace {

double seconds_since(std::uint64_t start_ns) {
  return static_cast<double>(system_clock().now_ns() - start_ns) * 1e-9;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

Result<double> time_passes(Communicator& control, const Repetition& repetition, const std::function<Status()>& pass) {
  for (int i = 0; i < repetition.warmup; ++i) TRIREME_RETURN_IF_ERROR(pass());
  std::vector<double> seconds;
  if (!repetition.refresh) {
    TRIREME_RETURN_IF_ERROR(control.barrier());
    const std::uint64_t start_ns = system_clock().now_ns();
    for (int i = 0; i < repetition.iterations; ++i) TRIREME_RETURN_IF_ERROR(pass());
    seconds.push_back(seconds_since(start_ns) / repetition.iterations);
  }
  for (int i = 0; repetition.refresh && i < repetition.iterations; ++i) {
    repetition.refresh();
    TRIREME_RETURN_IF_ERROR(control.barrier());
    const std::uint64_t start_ns = system_clock().now_ns();
    TRIREME_RETURN_IF_ERROR(pass());
    seconds.push_back(seconds_since(start_ns));
  }
  TRIREME_RETURN_IF_ERROR(
      control.all_reduce(seconds.data(), seconds.data(), seconds.size(), DataType::f64, ReduceOp::average));
  return median(std::move(seconds));
}

}  // namespace trireme::bench
