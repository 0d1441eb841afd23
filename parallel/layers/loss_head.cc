#include <trireme/parallel/loss_head.h>

#include <trireme/kernels/cross_entropy.h>

#include "parallel/layers/layer_support.h"

namespace trireme {

namespace {

kernels::HeadCrossEntropy head_call(const Context& context, ParameterViews parameters, int weight, const Tensor& h,
                                    const Tensor& targets, kernels::HeadShape shape, const Tensor& scratch) {
  kernels::HeadCrossEntropy call;
  call.shape = shape;
  call.h = h.as<float>();
  call.w = values(parameters, weight);
  call.targets = targets.as<std::int32_t>();
  call.ignore_index = kIgnoredTarget;
  call.precision = precision_of(context);
  call.scratch = scratch.data;
  return call;
}

}  // namespace

void LossHead::declare(Declaration& declaration, int tied_table) {
  if (tied_table >= 0) {
    declaration.use_again(tied_table);
    weight_ = tied_table;
    return;
  }
  weight_ = declaration.parameter({"weight", {vocabulary_, width_}, {Initializer::Kind::normal, 0.02f}, true});
}

Tensor LossHead::scratch(Context& context, const Tensor& h, Saved& saved) const {
  const std::size_t bytes = kernels::head_scratch_bytes({rows_of(h), width_, vocabulary_});
  return saved.allocate(context, Lifetime::forward, {static_cast<std::int64_t>(bytes)}, DataType::u8);
}

double LossHead::loss_and_gradient(Context& context, ParameterViews parameters, const Tensor& h, const Tensor& targets,
                                   float scale, const Tensor& dh, Saved& saved, GradientSink& sink) const {
  SavedScope scope(saved, Lifetime::forward);
  const Tensor room = scratch(context, h, saved);
  if (!context.computing()) return 0;
  kernels::HeadCrossEntropy call =
      head_call(context, parameters, weight_, h, targets, {rows_of(h), width_, vocabulary_}, room);
  call.scale = scale;
  call.dh = dh.as<float>();
  call.dw = sink.gradient(weight_);
  const double loss_sum = kernels::head_cross_entropy(*context.pool, call).loss_sum;
  sink.complete(weight_);
  return loss_sum;
}

double LossHead::loss(Context& context, ParameterViews parameters, const Tensor& h, const Tensor& targets,
                      Saved& saved) const {
  SavedScope scope(saved, Lifetime::forward);
  const Tensor room = scratch(context, h, saved);
  if (!context.computing()) return 0;
  return kernels::head_loss(*context.pool, head_call(context, parameters, weight_, h, targets,
                                                     {rows_of(h), width_, vocabulary_}, room))
      .loss_sum;
}

void LossHead::logits(Context& context, ParameterViews parameters, const float* h_row, float* logits) const {
  if (!context.computing()) return;
  kernels::head_logits(*context.pool, logits, h_row, values(parameters, weight_), {1, width_, vocabulary_},
                       precision_of(context));
}

}  // namespace trireme
