#include <trireme/kernels/transformer.h>
#include <trireme/parallel/layers.h>

namespace trireme {

void GeluLayer::forward(Context& context, ParameterViews, const Tensor& in, const Tensor& out, Saved& saved) const {
  saved.slot(slot_) = in;
  if (!context.computing()) return;
  kernels::gelu_forward(*context.pool, out.as<float>(), in.as<float>(), in.elements());
}

void GeluLayer::backward_input(Context& context, ParameterViews, const Tensor& dout, const Tensor& din,
                               Saved& saved) const {
  if (!context.computing() || din.data == nullptr) return;
  kernels::gelu_backward(*context.pool, din.as<float>(), dout.as<float>(), saved.slot(slot_).as<float>(),
                         din.elements());
}

}  // namespace trireme
