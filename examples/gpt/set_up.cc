// What happens before the first step of a run.
#include <algorithm>

#include <fmt/core.h>

#include <trireme/base/units.h>
#include <trireme/kernels/kernel_choice.h>
#include <trireme/platform/environment.h>

#include "examples/gpt/run.h"
#include "runtime/platform/api/console.h"
#include "runtime/platform/api/files.h"
#include "runtime/platform/api/system.h"

namespace trireme::gpt {

namespace {

Result<int> threads_per_rank(const Options& options, const World& world) {
  if (options.threads > 0) return options.threads;
  const int cores = usable_cpu_count();
  const int fair = std::max(1, cores / std::max(1, world.local_size()));
  TRIREME_ASSIGN_OR_RETURN(const std::int64_t threads, environment_integer("TRIREME_THREADS", fair, 1, 4096));
  return static_cast<int>(threads);
}

}  // namespace

Result<std::unique_ptr<Run>> Run::create(const Options& options, std::shared_ptr<World> world) {
  std::unique_ptr<Run> run(new Run(options, std::move(world)));
  TRIREME_RETURN_IF_ERROR(run->set_up());
  return run;
}

Status Run::set_up() {
  MeshExtents extents;
  extents.data = options_.data_parallel;
  TRIREME_ASSIGN_OR_RETURN(mesh_, Mesh::create(extents, world_->rank(), world_->size()));
  Result<kernels::KernelChoice> kernels = kernels::kernel_choice();
  if (!kernels.is_ok()) return kernels.status();
  TRIREME_ASSIGN_OR_RETURN(corpus_, ByteCorpus::load(options_.data, options_.model.tokens));
  TRIREME_ASSIGN_OR_RETURN(summary_.threads, threads_per_rank(options_, *world_));
  pool_ = std::make_unique<ThreadPool>(summary_.threads);
  if (world_->size() > 1) {
    TRIREME_ASSIGN_OR_RETURN(communicator_, Communicator::create(world_));
  }
  TRIREME_RETURN_IF_ERROR(make_trainer());
  if (!options_.checkpoint_dir.empty()) {
    TRIREME_ASSIGN_OR_RETURN(checkpoints_, Checkpoints::open(options_, *corpus_, world_, *trainer_));
    TRIREME_ASSIGN_OR_RETURN(const bool resumed, checkpoints_->resume());
    if (resumed) summary_.resumed_from = checkpoints_->resumed_from();
  }
  if (!is_first()) return Status::ok();
  if (!options_.json.empty() && options_.json != "-") {
    TRIREME_RETURN_IF_ERROR(check_can_write(options_.json).with_context("--json"));
  }
  if (!options_.metrics.empty()) {
    TRIREME_ASSIGN_OR_RETURN(metrics_, MetricsFile::open(options_.metrics, trainer_->counters().step));
    TRIREME_ASSIGN_OR_RETURN(const FileInfo info, file_info(options_.metrics));
    if (info.is_file) {  // What lies beside /dev/null is not ours.
      TRIREME_ASSIGN_OR_RETURN(events_, EventFile::open(options_.metrics));
    }
  }
  const bool resumed = !summary_.resumed_from.empty();
  if (resumed) print_out(fmt::format("resumed from {} at step {}\n", summary_.resumed_from, trainer_->counters().step));
  TRIREME_RETURN_IF_ERROR(
      note(resumed ? "resume" : "start", resumed ? "from " + summary_.resumed_from : mesh_.to_string()));
  return Status::ok();
}

Status Run::make_trainer() {
  share_ = balanced_part(options_.batch, mesh_.coordinate(Axis::data), mesh_.extent(Axis::data));
  const std::int64_t largest_share = balanced_part(options_.batch, 0, mesh_.extent(Axis::data)).size();
  TrainerOptions trainer;
  trainer.tokens_per_sequence = options_.model.tokens;
  trainer.microbatch = options_.microbatch > 0 ? std::min(options_.microbatch, largest_share) : largest_share;
  trainer.beta2 = options_.beta2;
  trainer.weight_decay = options_.weight_decay;
  trainer.clip_norm = options_.clip;
  trainer.bucket_bytes = options_.bucket_bytes;
  trainer.product_type = options_.product_type;
  trainer.seed = options_.seed;
  TRIREME_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, make_gpt(options_.model));
  TRIREME_ASSIGN_OR_RETURN(trainer_, Trainer::create(std::move(model), trainer, mesh_, communicator_.get(), *pool_));
  evaluation_ =
      std::make_unique<Evaluation>(*corpus_, *trainer_, communicator_.get(), trainer.microbatch, options_.model.tokens);
  const std::int64_t tokens_per_step = options_.batch * options_.model.tokens;
  schedule_ = {options_.learning_rate, options_.learning_rate_min, options_.warmup_steps * tokens_per_step,
               options_.steps * tokens_per_step};
  tokens_.resize(static_cast<std::size_t>(std::max<std::int64_t>(share_.size(), 1) * options_.model.tokens));
  targets_.resize(tokens_.size());
  summary_.unigram_entropy = corpus_->unigram_entropy();
  summary_.parameters = trainer_->model().layout().parameter_elements();
  summary_.ranks = world_->size();
  if (is_first()) {
    print_out(fmt::format("{} parameters, {}, {} thread{} each; {} of text to train on, {} held out\n{}\n",
                          summary_.parameters, mesh_.to_string(), summary_.threads, summary_.threads == 1 ? "" : "s",
                          format_bytes(static_cast<std::uint64_t>(corpus_->training_bytes())),
                          format_bytes(static_cast<std::uint64_t>(corpus_->held_out_bytes())),
                          trainer_->describe_memory()));
  }
  return Status::ok();
}

}  // namespace trireme::gpt
