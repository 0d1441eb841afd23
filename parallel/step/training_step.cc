// A training step, from top to bottom:
//   1. Each microbatch runs forward and backward. Gradients add up in one flat buffer;
//      in the last microbatch its buckets are all-reduced as they become complete.
//   2. The norm of the summed gradient is a number that all ranks compute from the same
//      bits. A single infinity or NaN on any rank has spread to all of them by now, so
//      all ranks skip the same step without a further message.
//   3. AdamW updates the parameters, with clipping folded into its gradient scale.
#include <trireme/parallel/training_step.h>

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include <trireme/kernels/elementwise.h>
#include <trireme/telemetry/log.h>

namespace trireme {

Result<StepReport> Trainer::step(const Batch& batch, double learning_rate) {
  double loss_sum = forward_backward(batch);
  if (!context_.error.is_ok()) {
    buckets_->abandon(context_.error);
    return context_.error;
  }
  TRIREME_RETURN_IF_ERROR(buckets_->finish(loss_sum));

  StepReport report;
  report.loss = loss_sum / static_cast<double>(batch.global_targets);
  const auto elements = static_cast<std::int64_t>(model_->layout().flat_elements());
  report.gradient_norm = std::sqrt(kernels::sum_of_squares(*context_.pool, gradients_, elements));
  ++counters_.step;
  counters_.tokens += batch.global_targets;
  if (!std::isfinite(report.gradient_norm) || !std::isfinite(report.loss)) return skip(report);

  const bool clipped = options_.clip_norm > 0 && report.gradient_norm > options_.clip_norm;
  update(clipped ? options_.clip_norm / report.gradient_norm : 1.0, learning_rate);
  counters_.skipped_in_a_row = 0;
  return report;
}

double Trainer::forward_backward(const Batch& batch) {
  const std::int64_t microbatches = (batch.sequences + options_.microbatch - 1) / options_.microbatch;
  buckets_->begin_step(static_cast<int>(microbatches));
  double loss_sum = 0;
  for (std::int64_t first = 0; first < batch.sequences; first += options_.microbatch) {
    const std::int64_t sequences = std::min(options_.microbatch, batch.sequences - first);
    const std::int64_t offset = first * options_.tokens_per_sequence;
    for (std::int64_t i = 0; i < sequences; ++i) {
      ordinals_[static_cast<std::size_t>(i)] = batch.first_ordinal + static_cast<std::uint64_t>(first + i);
    }
    context_.sample_ordinals = {ordinals_.data(), static_cast<std::size_t>(sequences)};
    loss_sum += model_->forward_backward(context_, views_,
                                         token_tensor(batch.tokens + offset, sequences, options_.tokens_per_sequence),
                                         token_tensor(batch.targets + offset, sequences, options_.tokens_per_sequence),
                                         1.0f / static_cast<float>(batch.global_targets), saved_.front(), *buckets_);
    if (!context_.error.is_ok()) break;
  }
  return loss_sum;
}

Result<StepReport> Trainer::skip(StepReport report) {
  report.skipped = true;
  ++counters_.skipped;
  ++counters_.skipped_in_a_row;
  const ParameterLayout& layout = model_->layout();
  std::string where = "the loss";
  for (int id = layout.count() - 1; id >= 0; --id) {
    const auto elements = static_cast<std::int64_t>(layout.elements(id));
    if (kernels::find_non_finite(*context_.pool, gradients_ + layout.offset(id), elements) < 0) continue;
    where = fmt::format("the gradient of {}", layout.spec(id).name);
    break;
  }
  const std::string what =
      fmt::format("step {}: {} is not finite on some rank; all ranks skip the step ({} skipped so far)", counters_.step,
                  where, counters_.skipped);
  if (mesh_.rank() == 0) log_line(LogLevel::warn, "train", what);
  if (counters_.skipped_in_a_row <= options_.skips_in_a_row_max) return report;
  return aborted(fmt::format("{}; {} in a row is more than the {} allowed. Lower the learning rate or look at the data",
                             what, counters_.skipped_in_a_row, options_.skips_in_a_row_max));
}

void Trainer::update(double gradient_scale, double learning_rate) {
  kernels::AdamW adamw;
  adamw.learning_rate = static_cast<float>(learning_rate);
  adamw.beta1 = static_cast<float>(options_.beta1);
  adamw.beta2 = static_cast<float>(options_.beta2);
  adamw.epsilon = static_cast<float>(options_.epsilon);
  adamw.gradient_scale = static_cast<float>(gradient_scale);
  adamw.step = ++counters_.updates;
  for (const ParameterLayout::Group& group : model_->layout().groups()) {
    adamw.weight_decay = group.decay ? static_cast<float>(options_.weight_decay) : 0.0f;
    kernels::adamw_step(*context_.pool, parameters_ + group.begin, first_moment_ + group.begin,
                        second_moment_ + group.begin, gradients_ + group.begin,
                        static_cast<std::int64_t>(group.end - group.begin), adamw);
  }
}

}  // namespace trireme
