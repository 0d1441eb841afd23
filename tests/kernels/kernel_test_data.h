// Random inputs, thread pools, and comparison with f64 for the tests of kernels.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <trireme/base/philox.h>
#include <trireme/device/thread_pool.h>

#include "kernels/cpu/kernel_set.h"

namespace trireme::kernels::testing {

// Standard normal deviates times `scale`.
inline std::vector<float> random_normal(std::int64_t count, std::uint32_t stream, float scale = 1.0f) {
  std::vector<float> values(static_cast<std::size_t>(count));
  const PhiloxKey key = make_philox_key(42, 7, stream);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = scale * philox_normal(key, 0, i);
  return values;
}

inline std::vector<std::int32_t> random_tokens(std::int64_t count, std::int64_t below, std::uint32_t stream) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(count));
  const PhiloxKey key = make_philox_key(42, 8, stream);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<std::int32_t>(philox_below(key, 0, i, static_cast<std::uint64_t>(below)));
  }
  return values;
}

inline std::vector<double> wide(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

// Every element within `tolerance` times the largest magnitude expected (at least `floor`).
inline void expect_close(const std::vector<float>& actual, const std::vector<double>& expected, double tolerance,
                         const std::string& what, double floor = 1e-3) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  double largest = floor;
  for (double value : expected) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(actual[i]), expected[i], tolerance * largest) << what << ", element " << i;
  }
}

struct NamedSet {
  const char* name;
  const KernelSet& set;
};

// The fast set calls oneDNN, whose OpenMP runtime the thread sanitizer does not see.
inline std::vector<NamedSet> kernel_sets() {
#if defined(__SANITIZE_THREAD__)
  return {{"reference", reference_kernels()}};
#else
  return {{"fast", fast_kernels()}, {"reference", reference_kernels()}};
#endif
}

// Calls body(set, pool, label) for every kernel set and several thread counts.
template <class Body>
void for_sets_and_pools(const Body& body) {
  for (const NamedSet& named : kernel_sets()) {
    for (int threads : {1, 2, 3}) {
      if (threads > 1 && &named.set == &reference_kernels()) break;  // They ignore the pool.
      ThreadPool pool(threads);
      body(named.set, pool, std::string(named.name) + " with " + std::to_string(threads) + " threads");
    }
  }
}

}  // namespace trireme::kernels::testing
