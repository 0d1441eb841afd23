// The shard plan: which rank writes which elements, and which saved parts a range is read
// from. Pure functions over ranges of the flattened global tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <trireme/base/partition.h>
#include <trireme/base/status.h>
#include <trireme/tensor/shard_spec.h>

namespace trireme {

// The elements of the global tensor that the holder of `shard` writes. The replicas of a
// range each write a part of it; parts differ by at most one element and together are the
// range. REQUIRES: shard.check() is ok.
Range plan_write(const ShardSpec& shard);

// A piece of a read: `elements` from `saved[part]`, beginning `offset_in_part` elements
// into it, to `offset_in_wanted` elements into the wanted range.
struct ReadSegment {
  std::size_t part = 0;
  std::int64_t offset_in_part = 0;
  std::int64_t offset_in_wanted = 0;
  std::int64_t elements = 0;
  bool operator==(const ReadSegment&) const = default;
};

// Segments that give every element of `wanted` once, in order. Reading N elements needs
// O(log parts + parts touched). REQUIRES: `saved` is sorted by begin and does not overlap.
// Errors: data_loss naming the first element nobody saved.
Result<std::vector<ReadSegment>> plan_read(const std::vector<Range>& saved, Range wanted);

// ok when the ranges, in any order, hold every element of [0, elements) exactly once.
// Errors: data_loss naming the first gap or overlap.
Status check_coverage(std::vector<Range> parts, std::int64_t elements);

}  // namespace trireme
