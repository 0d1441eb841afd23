#include <trireme/parallel/layers.h>

#include "parallel/layers/layer_support.h"

namespace trireme {

void Linear::declare(Declaration& declaration) {
  weight_ = declaration.parameter({"weight", {out_, in_}, {Initializer::Kind::normal, deviation_}, true});
  bias_ = declaration.parameter({"bias", {out_}, {}, false});
  slot_ = declaration.slots(2);
}

void Linear::forward(Context& context, ParameterViews parameters, const Tensor& in, const Tensor& out,
                     Saved& saved) const {
  saved.slot(slot_) = in;
  if (!context.computing()) return;
  kernels::linear_forward(*context.pool, out.as<float>(), in.as<float>(), values(parameters, weight_),
                          values(parameters, bias_), {rows_of(in), in_, out_}, precision_of(context));
}

void Linear::backward_input(Context& context, ParameterViews parameters, const Tensor& dout, const Tensor& din,
                            Saved& saved) const {
  saved.slot(slot_ + 1) = dout;
  if (!context.computing() || din.data == nullptr) return;
  kernels::linear_backward_input(*context.pool, din.as<float>(), dout.as<float>(), values(parameters, weight_),
                                 {rows_of(din), in_, out_}, precision_of(context));
}

void Linear::backward_weight(Context& context, Saved& saved, GradientSink& sink) const {
  if (!context.computing()) return;
  const Tensor& in = saved.slot(slot_);
  kernels::linear_backward_weight(*context.pool, sink.gradient(weight_), sink.gradient(bias_),
                                  saved.slot(slot_ + 1).as<float>(), in.as<float>(), {rows_of(in), in_, out_},
                                  precision_of(context));
  sink.complete(bias_);
  sink.complete(weight_);
}

}  // namespace trireme
