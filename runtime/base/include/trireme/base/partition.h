// Balanced partitions of an index range: one rule for chunks, shards and tasks.
#pragma once

#include <cstdint>

namespace trireme {

struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

// The i-th of n contiguous parts of [0, count): sizes differ by at most one, the larger
// ones first. REQUIRES: count >= 0, 0 <= part < parts.
constexpr Range balanced_part(std::int64_t count, std::int64_t part, std::int64_t parts) {
  const std::int64_t base = count / parts;
  const std::int64_t larger = count % parts;
  const std::int64_t begin = part * base + (part < larger ? part : larger);
  return {begin, begin + base + (part < larger ? 1 : 0)};
}

}  // namespace trireme
