#include "examples/gpt/checkpoints.h"

#include <fmt/core.h>

#include <trireme/checkpoint/checkpointer.h>
#include <charconv>
#include <map>

namespace trireme::gpt {

namespace {

using Facts = std::map<std::string, std::string>;

// What must be the same in the run that resumes. The keys are what people can change.
Facts facts_of(const Options& options, const ByteCorpus& corpus) {
  return {{"--layers", std::to_string(options.model.layers)},
          {"--dim", std::to_string(options.model.width)},
          {"--heads", std::to_string(options.model.heads)},
          {"--seq", std::to_string(options.model.tokens)},
          {"--seed", std::to_string(options.seed)},
          {"--data", fmt::format("with hash {:016x}", corpus.fingerprint())}};
}

Status check_facts(const Facts& ours, const CheckpointMetadata& metadata, const std::string& path) {
  for (const auto& [key, value] : ours) {
    const auto theirs = metadata.values.find(key);
    if (theirs == metadata.values.end()) {
      return invalid_argument(fmt::format(
          "checkpoint {} was not saved by trireme-gpt ({} is not recorded); give another --checkpoint-dir", path, key));
    }
    if (theirs->second == value) continue;
    return invalid_argument(
        fmt::format("checkpoint {} was saved by a run with {} {}, but this run has {} {}. Give the same options, "
                    "another --checkpoint-dir, or --resume never",
                    path, key, theirs->second, key, value));
  }
  return Status::ok();
}

// Every array of the trainer under its parameters' names. All ranks hold all of it; the
// checkpointer lets each write its part.
CheckpointState state_of(Trainer& trainer, const World& world) {
  CheckpointState state;
  const ParameterLayout& layout = trainer.model().layout();
  const std::pair<const char*, float*> arrays[] = {{"parameter/", trainer.parameters()},
                                                   {"moment1/", trainer.first_moment()},
                                                   {"moment2/", trainer.second_moment()}};
  for (const auto& [prefix, flat] : arrays) {
    for (int id = 0; id < layout.count(); ++id) {
      state.items.push_back({prefix + layout.spec(id).name, DataType::f32,
                             ShardSpec::whole(layout.spec(id).shape, world.rank(), world.size()),
                             flat + layout.offset(id)});
    }
  }
  return state;
}

void put_counters(const TrainingCounters& counters, CheckpointMetadata& metadata) {
  metadata.data_position = counters.sample_ordinal;
  metadata.values["updates"] = std::to_string(counters.updates);
  metadata.values["skipped"] = std::to_string(counters.skipped);
  metadata.values["skipped_in_a_row"] = std::to_string(counters.skipped_in_a_row);
  metadata.values["tokens"] = std::to_string(counters.tokens);
}

Status get_counter(const CheckpointMetadata& metadata, const std::string& key, std::int64_t& value) {
  const auto found = metadata.values.find(key);
  if (found != metadata.values.end()) {
    const std::string& text = found->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size()) return Status::ok();
  }
  return data_loss(fmt::format("checkpoint of step {}: its metadata has no number '{}'", metadata.step, key));
}

Status get_counters(const CheckpointMetadata& metadata, TrainingCounters& counters) {
  counters.step = metadata.step;
  counters.sample_ordinal = metadata.data_position;
  TRIREME_RETURN_IF_ERROR(get_counter(metadata, "updates", counters.updates));
  TRIREME_RETURN_IF_ERROR(get_counter(metadata, "skipped", counters.skipped));
  TRIREME_RETURN_IF_ERROR(get_counter(metadata, "skipped_in_a_row", counters.skipped_in_a_row));
  return get_counter(metadata, "tokens", counters.tokens);
}

}  // namespace

struct Checkpoints::Impl {
  Result<std::optional<LoadedCheckpoint>> load(CheckpointState& into, const LoadOptions& load_options) {
    if (resume == "auto") return checkpointer->load_newest(into, load_options);
    Result<LoadedCheckpoint> one = checkpointer->load(resume, into, load_options);
    if (!one.is_ok()) return one.status().with_context("--resume " + resume);
    return std::optional<LoadedCheckpoint>(std::move(*one));
  }

  std::string resume;
  Facts facts;
  Trainer* trainer = nullptr;
  CheckpointState state;
  std::unique_ptr<Checkpointer> checkpointer;
  std::vector<SaveHandle> pending;
  std::string resumed_from;
};

Checkpoints::Checkpoints(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Checkpoints::~Checkpoints() = default;

Result<std::unique_ptr<Checkpoints>> Checkpoints::open(const Options& options, const ByteCorpus& corpus,
                                                       std::shared_ptr<World> world, Trainer& trainer) {
  auto impl = std::make_unique<Impl>();
  impl->resume = options.resume;
  impl->facts = facts_of(options, corpus);
  impl->trainer = &trainer;
  impl->state = state_of(trainer, *world);
  CheckpointerOptions checkpointer;
  checkpointer.directory = options.checkpoint_dir;
  checkpointer.keep_last = options.checkpoint_keep;
  Result<std::unique_ptr<Checkpointer>> created = Checkpointer::create(std::move(world), checkpointer);
  if (!created.is_ok()) return created.status().with_context("--checkpoint-dir " + options.checkpoint_dir);
  impl->checkpointer = std::move(*created);
  TRIREME_RETURN_IF_ERROR(impl->checkpointer->prepare(impl->state));
  return std::unique_ptr<Checkpoints>(new Checkpoints(std::move(impl)));
}

Result<bool> Checkpoints::resume() {
  if (impl_->resume == "never") return false;
  // First the metadata alone, so that another model is refused by the name of the option.
  CheckpointState probe;
  LoadOptions metadata_only;
  metadata_only.allow_unread_items = true;
  TRIREME_ASSIGN_OR_RETURN(const std::optional<LoadedCheckpoint> found, impl_->load(probe, metadata_only));
  if (!found) return false;
  TRIREME_RETURN_IF_ERROR(check_facts(impl_->facts, found->metadata, found->path));
  TRIREME_ASSIGN_OR_RETURN(const std::optional<LoadedCheckpoint> loaded, impl_->load(impl_->state, {}));
  if (!loaded) return false;
  TRIREME_RETURN_IF_ERROR(check_facts(impl_->facts, loaded->metadata, loaded->path));
  TRIREME_RETURN_IF_ERROR(get_counters(loaded->metadata, impl_->trainer->counters()));
  impl_->resumed_from = loaded->path;
  return true;
}

Status Checkpoints::save() {
  const TrainingCounters& counters = impl_->trainer->counters();
  CheckpointMetadata& metadata = impl_->state.metadata;
  metadata.values = impl_->facts;
  put_counters(counters, metadata);
  TRIREME_ASSIGN_OR_RETURN(SaveHandle handle, impl_->checkpointer->save(counters.step, impl_->state));
  impl_->pending.push_back(std::move(handle));
  return Status::ok();
}

std::vector<Checkpoints::Outcome> Checkpoints::ended() {
  std::vector<Outcome> outcomes;
  std::vector<SaveHandle> still;
  for (SaveHandle& handle : impl_->pending) {
    if (handle.done()) {
      outcomes.push_back({handle.step(), handle.wait()});
    } else {
      still.push_back(std::move(handle));
    }
  }
  impl_->pending = std::move(still);
  return outcomes;
}

void Checkpoints::finish() {
  for (const SaveHandle& handle : impl_->pending) static_cast<void>(handle.wait());  // ended() tells how it went.
}

const std::string& Checkpoints::resumed_from() const {
  return impl_->resumed_from;
}

}  // namespace trireme::gpt
