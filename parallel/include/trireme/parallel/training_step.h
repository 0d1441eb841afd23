// Trainer: one rank's part of training a model by data parallelism.
//
// It owns what training changes (parameters, AdamW's moments, the counters) and the
// memory of a step, all of it taken and touched when it is created: a warm step
// allocates nothing of its own. Every rank holds the same parameters; step() is collective.
//
// Same layout, same bits: two runs with the same ranks, threads and batches end in the
// same bytes. Ranks always agree on loss, norm and parameters to the last bit.
// Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <trireme/collectives/communicator.h>
#include <trireme/parallel/gradient_buckets.h>
#include <trireme/parallel/mesh.h>
#include <trireme/parallel/model.h>

namespace trireme {

struct TrainerOptions {
  std::int64_t tokens_per_sequence = 128;
  std::int64_t microbatch = 1;  // Sequences computed at once; bounds the memory.
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;  // On matrices only.
  double clip_norm = 1.0;     // Of the gradient of all ranks together; 0: no clipping.
  std::size_t bucket_bytes = std::size_t{1} << 20;
  int skips_in_a_row_max = 25;            // More than that many steps skipped in a row are an error.
  DataType product_type = DataType::f32;  // Or bf16: operands rounded, f32 parameters and sums.
  std::uint64_t seed = 1;
};

// This rank's sequences of one step.
struct Batch {
  const std::int32_t* tokens = nullptr;   // [sequences, tokens_per_sequence]
  const std::int32_t* targets = nullptr;  // Likewise; kIgnoredTarget is not counted.
  std::int64_t sequences = 0;             // May be 0, and different on every rank.
  std::uint64_t first_ordinal = 0;        // Global number of the first sequence.
  std::int64_t global_targets = 0;        // Targets counted on all ranks together.
};

struct StepReport {
  double loss = 0;           // Mean over the global batch, in nats per token.
  double gradient_norm = 0;  // Of the global gradient, before clipping.
  bool skipped = false;      // A gradient was not finite: nothing was changed, on any rank.
};

// What training changes, apart from the arrays.
struct TrainingCounters {
  std::int64_t step = 0;     // Steps taken, skipped ones too.
  std::int64_t updates = 0;  // Steps that changed the parameters.
  std::int64_t skipped = 0;
  std::int64_t skipped_in_a_row = 0;
  std::int64_t tokens = 0;           // Targets seen by all ranks.
  std::uint64_t sample_ordinal = 0;  // Sequences seen by all ranks: the next one's number.
};

class Trainer {
 public:
  // Parameters start at their initial values for options.seed. `communicator` joins the
  // ranks of the mesh's data axis and may be nullptr for one rank; it and `pool` outlive
  // the trainer. Errors: invalid_argument; resource_exhausted with the bytes wanted.
  static Result<std::unique_ptr<Trainer>> create(std::unique_ptr<Model> model, const TrainerOptions& options,
                                                 const Mesh& mesh, Communicator* communicator, ThreadPool& pool);

  // Forward, backward, reduction, clipping and update over the global batch.
  // Errors: the communicator's (the trainer is then unusable); aborted after too many
  // skipped steps in a row, naming the first parameter that was not finite.
  Result<StepReport> step(const Batch& batch, double learning_rate);
  // Sum of the losses of `sequences` sequences on this rank, without gradients.
  Result<double> evaluate(const std::int32_t* tokens, const std::int32_t* targets, std::int64_t sequences);
  // Logits after the last of `tokens` (at most tokens_per_sequence, at least one).
  Result<std::span<const float>> next_token_logits(std::span<const std::int32_t> tokens);

  TrainingCounters& counters() { return counters_; }
  const TrainingCounters& counters() const { return counters_; }
  const Model& model() const { return *model_; }
  const std::vector<GradientBuckets::Bucket>& buckets() const { return buckets_->buckets(); }
  // Flat arrays of model().layout(): what a checkpoint holds.
  float* parameters() { return parameters_; }
  float* first_moment() { return first_moment_; }
  float* second_moment() { return second_moment_; }
  // Of the last step, summed over the ranks, before clipping.
  const float* gradients() const { return gradients_; }
  // "parameters 3.2 MiB, ...": what create() took.
  std::string describe_memory() const;

 private:
  Trainer(std::unique_ptr<Model> model, const TrainerOptions& options, const Mesh& mesh, ThreadPool& pool);
  Status allocate(Communicator* communicator);
  double forward_backward(const Batch& batch);
  Result<StepReport> skip(StepReport report);
  void update(double gradient_scale, double learning_rate);
  Tensor token_tensor(const std::int32_t* ids, std::int64_t sequences, std::int64_t tokens) const;

  std::unique_ptr<Model> model_;
  TrainerOptions options_;
  Mesh mesh_;
  Context context_;
  TrainingCounters counters_;
  std::vector<Arena> arenas_;  // Flat arrays.
  std::vector<Saved> saved_;   // One: the microbatch in flight.
  std::vector<Tensor> views_;
  std::vector<std::uint64_t> ordinals_;
  std::vector<float> logits_;
  float* parameters_ = nullptr;
  float* gradients_ = nullptr;
  float* first_moment_ = nullptr;
  float* second_moment_ = nullptr;
  std::unique_ptr<GradientBuckets> buckets_;
};

}  // namespace trireme
