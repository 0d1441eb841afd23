// ShardSpec: which part of a global tensor this rank holds. Where parallel engines and
// checkpoints meet: engines say it, checkpoints write and read by it.
#pragma once

#include <cstdint>
#include <string>

#include <trireme/base/status.h>
#include <trireme/tensor/tensor.h>

namespace trireme {

// A half-open range of the flattened (row-major) global tensor. `replica` of `replicas`:
// several ranks may hold the same bytes; one of them writes them.
// A later layout may slice along several axes; a flat range is what data parallelism
// and optimizer sharding need, and a list of them expresses any slice.
struct ShardSpec {
  Shape global_shape;
  std::int64_t begin = 0;  // First element held, in the flattened global tensor.
  std::int64_t end = 0;    // One past the last.
  int replica = 0;
  int replicas = 1;

  static ShardSpec whole(const Shape& shape, int replica = 0, int replicas = 1);
  std::int64_t elements() const { return end - begin; }
  // invalid_argument when the range or the replica numbers are impossible.
  Status check() const;
};

}  // namespace trireme
