#include <trireme/kernels/transformer.h>
#include <trireme/parallel/layers.h>

#include "parallel/layers/layer_support.h"

namespace trireme {

namespace {
// Slots: what forward read, its statistics, and the output's gradient.
enum Slot { kInput, kMean, kReciprocalDeviation, kOutputGradient, kSlots };
}  // namespace

void LayerNorm::declare(Declaration& declaration) {
  gamma_ = declaration.parameter({"weight", {width_}, {Initializer::Kind::ones}, false});
  beta_ = declaration.parameter({"bias", {width_}, {}, false});
  slot_ = declaration.slots(kSlots);
}

void LayerNorm::forward(Context& context, ParameterViews parameters, const Tensor& in, const Tensor& out,
                        Saved& saved) const {
  const Shape per_row{in.shape[0], in.shape[1]};
  const Tensor mean = saved.allocate(context, Lifetime::backward_weight, per_row);
  const Tensor rstd = saved.allocate(context, Lifetime::backward_weight, per_row);
  saved.slot(slot_ + kInput) = in;
  saved.slot(slot_ + kMean) = mean;
  saved.slot(slot_ + kReciprocalDeviation) = rstd;
  if (!context.computing()) return;
  kernels::layer_norm_forward(*context.pool, out.as<float>(), mean.as<float>(), rstd.as<float>(), in.as<float>(),
                              values(parameters, gamma_), values(parameters, beta_), rows_of(in), width_);
}

void LayerNorm::backward_input(Context& context, ParameterViews parameters, const Tensor& dout, const Tensor& din,
                               Saved& saved) const {
  saved.slot(slot_ + kOutputGradient) = dout;
  if (!context.computing() || din.data == nullptr) return;
  kernels::layer_norm_backward_input(*context.pool, din.as<float>(), nullptr, dout.as<float>(),
                                     saved.slot(slot_ + kInput).as<float>(), values(parameters, gamma_),
                                     saved.slot(slot_ + kMean).as<float>(),
                                     saved.slot(slot_ + kReciprocalDeviation).as<float>(), rows_of(din), width_);
}

void LayerNorm::backward_weight(Context& context, Saved& saved, GradientSink& sink) const {
  if (!context.computing()) return;
  const Tensor& in = saved.slot(slot_ + kInput);
  kernels::layer_norm_backward_weight(*context.pool, sink.gradient(gamma_), sink.gradient(beta_),
                                      saved.slot(slot_ + kOutputGradient).as<float>(), in.as<float>(),
                                      saved.slot(slot_ + kMean).as<float>(),
                                      saved.slot(slot_ + kReciprocalDeviation).as<float>(), rows_of(in), width_);
  sink.complete(beta_);
  sink.complete(gamma_);
}

}  // namespace trireme
