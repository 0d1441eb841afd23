#include <trireme/tensor/shard_spec.h>

namespace trireme {

ShardSpec ShardSpec::whole(const Shape& shape, int replica, int replicas) {
  ShardSpec spec;
  spec.global_shape = shape;
  spec.end = shape.elements();
  spec.replica = replica;
  spec.replicas = replicas;
  return spec;
}

Status ShardSpec::check() const {
  std::int64_t count = 1;
  for (int axis = 0; axis < global_shape.rank(); ++axis) {
    if (global_shape[axis] < 0 || __builtin_mul_overflow(count, global_shape[axis], &count)) {
      return invalid_argument("shape " + global_shape.to_string() +
                              ": extents must not be negative, nor their product " + "exceed 2^63 - 1");
    }
  }
  if (begin < 0 || end < begin || end > count) {
    return invalid_argument("shard [" + std::to_string(begin) + ", " + std::to_string(end) + ") of a tensor " +
                            global_shape.to_string() + ": expected a range within [0, " + std::to_string(count) + ")");
  }
  if (replicas < 1 || replica < 0 || replica >= replicas) {
    return invalid_argument("replica " + std::to_string(replica) + " of " + std::to_string(replicas) +
                            ": expected 0 <= replica < replicas");
  }
  return Status::ok();
}

}  // namespace trireme
