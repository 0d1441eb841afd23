// GradientBuckets: data parallelism. Sums the gradients of all ranks while backward runs.
//
// The flat gradient buffer is cut, at parameters' edges and from its end to its front
// (backward finishes the last layers first), into buckets of about `bucket_bytes`. When
// the last gradient of a bucket is complete in the step's last microbatch, its all-reduce
// starts; always in the order of the cut, never in order of readiness, so that every rank
// starts the same operations in the same order. Ranks may have different numbers of
// microbatches, also none.
//
// The sums are plain sums: whoever scales the loss by 1 / (targets in the global batch)
// gets the gradient of the global mean, however unevenly the batch is split.
// Thread safety: one thread at a time.
#pragma once

#include <cstddef>
#include <vector>

#include <trireme/collectives/communicator.h>
#include <trireme/parallel/module.h>

namespace trireme {

class GradientBuckets final : public GradientSink {
 public:
  struct Bucket {
    int first_parameter = 0;  // Parameters [first, last].
    int last_parameter = 0;
    std::size_t begin = 0;  // Elements of the flat buffer, gaps included.
    std::size_t end = 0;
  };
  // The cut, in the order of launch: a pure function. Each bucket holds at least one parameter.
  static std::vector<Bucket> plan(const ParameterLayout& layout, std::size_t bucket_bytes);

  // `flat` holds layout.flat_elements() gradients. `communicator` may be nullptr: one rank.
  // All three outlive this object.
  GradientBuckets(const ParameterLayout& layout, float* flat, Communicator* communicator, std::size_t bucket_bytes);
  // Gradients in flight belong to the communicator; waits for them.
  ~GradientBuckets() override;

  // Zeroes the gradients. REQUIRES: no all-reduce is in flight.
  void begin_step(int microbatches);
  float* gradient(int parameter) override { return flat_ + layout_.offset(parameter); }
  void complete(int parameter) override;
  // Starts what has not started (a rank without microbatches) and waits for everything.
  // `loss_sum` becomes its sum over the ranks, in f64.
  // Errors: the communicator's. Gradients and loss then hold unspecified values.
  Status finish(double& loss_sum);
  // Gives up on the step when this rank cannot finish it: the other ranks learn why.
  void abandon(const Status& reason);

  const std::vector<Bucket>& buckets() const { return buckets_; }

 private:
  void launch_ready();

  const ParameterLayout& layout_;
  float* flat_;
  Communicator* communicator_;
  std::vector<Bucket> buckets_;
  std::vector<int> bucket_of_;  // By parameter.
  std::vector<int> users_;      // By bucket: contributions of one microbatch.
  std::vector<int> missing_;    // By bucket: contributions not yet seen in this step.
  std::vector<Work> works_;     // By bucket.
  std::size_t next_ = 0;        // The first bucket not started.
};

}  // namespace trireme
