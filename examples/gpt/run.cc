#include "examples/gpt/run.h"

#include <algorithm>

#include <fmt/core.h>

#include <trireme/base/units.h>
#include <trireme/platform/clock.h>

#include "examples/gpt/sample.h"

namespace trireme::gpt {

Run::Run(const Options& options, std::shared_ptr<World> world) : options_(options), world_(std::move(world)) {}

Run::~Run() = default;

Status Run::execute() {
  TRIREME_RETURN_IF_ERROR(train());
  return conclude();
}

Status Run::train() {
  const std::int64_t first = trainer_->counters().step;
  progress_ = std::make_unique<Progress>(!is_first(), first, options_.steps);
  const std::uint64_t begin_ns = system_clock().now_ns();
  const std::int64_t tokens_before = trainer_->counters().tokens;
  while (trainer_->counters().step < options_.steps) TRIREME_RETURN_IF_ERROR(one_step());
  const double seconds = static_cast<double>(system_clock().now_ns() - begin_ns) / 1e9;
  summary_.training_seconds = seconds;
  summary_.tokens_per_second =
      seconds > 0 ? static_cast<double>(trainer_->counters().tokens - tokens_before) / seconds : 0;
  return Status::ok();
}

Status Run::one_step() {
  const std::uint64_t begin_ns = system_clock().now_ns();
  Batch batch;
  fill_batch(batch);
  TrainingCounters& counters = trainer_->counters();
  const double learning_rate = schedule_.at(counters.tokens + batch.global_targets);
  TRIREME_ASSIGN_OR_RETURN(const StepReport report, trainer_->step(batch, learning_rate));
  counters.sample_ordinal += static_cast<std::uint64_t>(options_.batch);
  const double seconds = static_cast<double>(system_clock().now_ns() - begin_ns) / 1e9;
  TRIREME_RETURN_IF_ERROR(record(report, learning_rate, seconds));
  return after_step();
}

Status Run::after_step() {
  const std::int64_t step = trainer_->counters().step;
  if (options_.eval_every > 0 && step % options_.eval_every == 0 && step < options_.steps) {
    TRIREME_ASSIGN_OR_RETURN(const double loss, evaluation_->run(options_.eval_batches * options_.batch));
    const std::string line = fmt::format("held-out loss {:.4f} nats per byte", loss);
    progress_->say(fmt::format("step {}: {}", step, line));
    TRIREME_RETURN_IF_ERROR(note("evaluation", line, loss));
  }
  if (checkpoints_ == nullptr) return Status::ok();
  const bool due = options_.checkpoint_every > 0 && step % options_.checkpoint_every == 0;
  if (due || step == options_.steps) TRIREME_RETURN_IF_ERROR(checkpoints_->save());
  return note_checkpoints();
}

Status Run::note_checkpoints() {
  for (const Checkpoints::Outcome& outcome : checkpoints_->ended()) {
    const bool saved = outcome.status.is_ok();
    ++(saved ? summary_.checkpoints_saved : summary_.checkpoints_failed);
    last_checkpoint_ = outcome.status;
    if (!saved && first_checkpoint_failure_.is_ok()) first_checkpoint_failure_ = outcome.status;
    const std::string line =
        saved ? fmt::format("checkpoint of step {} saved", outcome.step)
              : fmt::format("warning: the checkpoint of step {} could not be saved, training goes on: {}", outcome.step,
                            outcome.status.to_string());
    if (!saved) progress_->say(line);
    if (events_ == nullptr) continue;
    TRIREME_RETURN_IF_ERROR(events_->append({saved ? "checkpoint" : "checkpoint_failed", outcome.step, line, {}}));
  }
  return Status::ok();
}

Status Run::note(const std::string& event, const std::string& detail, std::optional<double> held_out_loss) {
  return events_ ? events_->append({event, trainer_->counters().step, detail, held_out_loss}) : Status::ok();
}

void Run::fill_batch(Batch& batch) {
  const std::uint64_t first = trainer_->counters().sample_ordinal + static_cast<std::uint64_t>(share_.begin);
  for (std::int64_t i = 0; i < share_.size(); ++i) {
    const std::int64_t offset = i * options_.model.tokens;
    corpus_->training_sequence(options_.seed, first + static_cast<std::uint64_t>(i), tokens_.data() + offset,
                               targets_.data() + offset);
  }
  batch.tokens = tokens_.data();
  batch.targets = targets_.data();
  batch.sequences = share_.size();
  batch.first_ordinal = first;
  batch.global_targets = options_.batch * options_.model.tokens;
}

Status Run::record(const StepReport& report, double learning_rate, double step_seconds) {
  const TrainingCounters& counters = trainer_->counters();
  summary_.loss = report.loss;
  StepMetrics metrics;
  metrics.step = counters.step;
  metrics.loss = report.loss;
  metrics.grad_norm = report.gradient_norm;
  metrics.lr = learning_rate;
  metrics.tokens = counters.tokens;
  metrics.tokens_per_second = static_cast<double>(options_.batch * options_.model.tokens) / step_seconds;
  metrics.step_ms = step_seconds * 1e3;
  metrics.skipped = counters.skipped;
  progress_->step(counters.step, report.loss, metrics.tokens_per_second);
  return metrics_ ? metrics_->append(metrics) : Status::ok();
}

Status Run::conclude() {
  if (checkpoints_) {
    checkpoints_->finish();
    TRIREME_RETURN_IF_ERROR(note_checkpoints());
    summary_.resumed_from = checkpoints_->resumed_from();
  }
  TRIREME_ASSIGN_OR_RETURN(summary_.held_out_loss, evaluation_->run(0));
  if (options_.generate > 0 && is_first()) {
    TRIREME_ASSIGN_OR_RETURN(summary_.sample, generate(*trainer_, corpus_->held_out_prompt(16), options_.generate,
                                                       options_.temperature, options_.seed, options_.model.tokens));
  }
  const TrainingCounters& counters = trainer_->counters();
  summary_.steps = counters.step;
  summary_.tokens = counters.tokens;
  summary_.skipped = counters.skipped;
  if (is_first()) TRIREME_RETURN_IF_ERROR(show_summary(summary_, options_.json, *progress_));
  TRIREME_RETURN_IF_ERROR(note("end", "the run is complete", summary_.held_out_loss));
  if (summary_.checkpoints_failed > 0) {
    progress_->say(fmt::format("warning: {} of {} checkpoints could not be saved; the first failure: {}",
                               summary_.checkpoints_failed, summary_.checkpoints_failed + summary_.checkpoints_saved,
                               first_checkpoint_failure_.to_string()));
  }
  // Rank 0 may take longer (the sample): nobody leaves before all are done.
  if (communicator_) TRIREME_RETURN_IF_ERROR(communicator_->barrier());
  // A job whose result is not on disk has not succeeded, whatever it printed.
  return last_checkpoint_.with_context("training is complete, but its last checkpoint could not be saved");
}

}  // namespace trireme::gpt
