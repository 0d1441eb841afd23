// Construction of a Trainer, and what it does without gradients.
#include <algorithm>

#include <fmt/core.h>

#include <trireme/base/units.h>
#include <trireme/parallel/training_step.h>

namespace trireme {

Trainer::Trainer(std::unique_ptr<Model> model, const TrainerOptions& options, const Mesh& mesh, ThreadPool& pool)
    : model_(std::move(model)), options_(options), mesh_(mesh) {
  context_.pool = &pool;
  context_.mesh = &mesh_;
  context_.product_type = options_.product_type;
  context_.seed = options_.seed;
}

Result<std::unique_ptr<Trainer>> Trainer::create(std::unique_ptr<Model> model, const TrainerOptions& options,
                                                 const Mesh& mesh, Communicator* communicator, ThreadPool& pool) {
  if (options.microbatch < 1 || options.tokens_per_sequence < 1) {
    return invalid_argument(fmt::format("trainer: microbatch {} of sequences of {} tokens; both must be at least 1",
                                        options.microbatch, options.tokens_per_sequence));
  }
  if (options.product_type != DataType::f32 && options.product_type != DataType::bf16) {
    return invalid_argument(fmt::format("trainer: matrix products of type {}; expected f32 or bf16",
                                        trireme::to_string(options.product_type)));
  }
  const int ranks = communicator == nullptr ? 1 : communicator->size();
  if (mesh.extent(Axis::data) != ranks) {
    return invalid_argument(
        fmt::format("trainer: the mesh's data axis has {} ranks, its communicator {}", mesh.extent(Axis::data), ranks));
  }
  std::unique_ptr<Trainer> trainer(new Trainer(std::move(model), options, mesh, pool));
  TRIREME_RETURN_IF_ERROR(trainer->allocate(ranks == 1 ? nullptr : communicator));
  return trainer;
}

Status Trainer::allocate(Communicator* communicator) {
  const ParameterLayout& layout = model_->layout();
  for (auto [name, array] :
       {std::pair{"parameters", &parameters_}, std::pair{"gradients", &gradients_},
        std::pair{"first moments", &first_moment_}, std::pair{"second moments", &second_moment_}}) {
    TRIREME_ASSIGN_OR_RETURN(Arena arena, Arena::create(name, layout.flat_elements() * sizeof(float)));
    TRIREME_ASSIGN_OR_RETURN(*array, arena.allocate_array<float>(layout.flat_elements()));
    std::fill_n(*array, layout.flat_elements(), 0.0f);
    arenas_.push_back(std::move(arena));
  }
  layout.initialize(parameters_, options_.seed);
  views_ = layout.views(parameters_);
  const Saved::Sizes sizes = model_->plan_memory(options_.microbatch, options_.tokens_per_sequence);
  TRIREME_ASSIGN_OR_RETURN(Saved saved, Saved::create(model_->slots(), sizes));
  saved_.push_back(std::move(saved));
  ordinals_.resize(static_cast<std::size_t>(options_.microbatch));
  logits_.resize(static_cast<std::size_t>(model_->head().vocabulary()));
  buckets_ = std::make_unique<GradientBuckets>(layout, gradients_, communicator, options_.bucket_bytes);
  return Status::ok();
}

Tensor Trainer::token_tensor(const std::int32_t* ids, std::int64_t sequences, std::int64_t tokens) const {
  return {const_cast<std::int32_t*>(ids), DataType::i32, {sequences, tokens}};  // Modules only read their input.
}

Result<double> Trainer::evaluate(const std::int32_t* tokens, const std::int32_t* targets, std::int64_t sequences) {
  double loss_sum = 0;
  for (std::int64_t first = 0; first < sequences; first += options_.microbatch) {
    const std::int64_t count = std::min(options_.microbatch, sequences - first);
    const std::int64_t offset = first * options_.tokens_per_sequence;
    loss_sum += model_->evaluate(context_, views_, token_tensor(tokens + offset, count, options_.tokens_per_sequence),
                                 token_tensor(targets + offset, count, options_.tokens_per_sequence), saved_.front());
  }
  TRIREME_RETURN_IF_ERROR(context_.error);
  return loss_sum;
}

Result<std::span<const float>> Trainer::next_token_logits(std::span<const std::int32_t> tokens) {
  const auto count = static_cast<std::int64_t>(tokens.size());
  if (count < 1 || count > options_.tokens_per_sequence) {
    return invalid_argument(
        fmt::format("trainer: logits after {} tokens; expected 1 to {}", count, options_.tokens_per_sequence));
  }
  model_->next_token_logits(context_, views_, token_tensor(tokens.data(), 1, count), logits_.data(), saved_.front());
  TRIREME_RETURN_IF_ERROR(context_.error);
  return std::span<const float>(logits_);
}

std::string Trainer::describe_memory() const {
  std::uint64_t activations = 0;
  const Saved::Sizes sizes = model_->plan_memory(options_.microbatch, options_.tokens_per_sequence);
  for (std::size_t bytes : sizes.bytes) activations += bytes;
  const std::uint64_t flat = model_->layout().flat_elements() * sizeof(float);
  return fmt::format("parameters {}, gradients {}, optimizer {}, activations {}", format_bytes(flat),
                     format_bytes(flat), format_bytes(2 * flat), format_bytes(activations));
}

}  // namespace trireme
