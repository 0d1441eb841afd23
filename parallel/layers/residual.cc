#include <trireme/kernels/transformer.h>
#include <trireme/parallel/containers.h>

namespace trireme {

void Residual::declare(Declaration& declaration) {
  branch_->declare(declaration);
}

void Residual::forward(Context& context, ParameterViews parameters, const Tensor& in, const Tensor& out,
                       Saved& saved) const {
  SavedScope scope(saved, Lifetime::forward);
  const Tensor branch_out = saved.allocate(context, branch_->output_lifetime(), in.shape);
  branch_->forward(context, parameters, in, branch_out, saved);
  if (!context.computing()) return;
  kernels::residual_add(*context.pool, out.as<float>(), in.as<float>(), branch_out.as<float>(), in.elements());
}

void Residual::backward_input(Context& context, ParameterViews parameters, const Tensor& dout, const Tensor& din,
                              Saved& saved) const {
  branch_->backward_input(context, parameters, dout, din, saved);
  if (!context.computing()) return;
  kernels::residual_add(*context.pool, din.as<float>(), din.as<float>(), dout.as<float>(), din.elements());
}

void Residual::backward_weight(Context& context, Saved& saved, GradientSink& sink) const {
  branch_->backward_weight(context, saved, sink);
}

void Residual::backward(Context& context, ParameterViews parameters, const Tensor& dout, const Tensor& din,
                        Saved& saved, GradientSink& sink) const {
  branch_->backward(context, parameters, dout, din, saved, sink);
  if (!context.computing()) return;
  kernels::residual_add(*context.pool, din.as<float>(), din.as<float>(), dout.as<float>(), din.elements());
}

}  // namespace trireme
