#include <trireme/kernels/transformer.h>
#include <trireme/parallel/layers.h>

namespace trireme {

namespace {

enum Slot { kInput, kOutput, kLogSumExp };

kernels::AttentionShape attention_shape(const Tensor& qkv, std::int64_t width, std::int64_t heads) {
  return {qkv.shape[0], qkv.shape[1], heads, width / heads, 3 * width, width};
}

}  // namespace

void CausalAttention::forward(Context& context, ParameterViews, const Tensor& in, const Tensor& out,
                              Saved& saved) const {
  const Tensor log_sum_exp = saved.allocate(context, Lifetime::backward_input, {in.shape[0], heads_, in.shape[1]});
  saved.slot(slot_ + kInput) = in;
  saved.slot(slot_ + kOutput) = out;
  saved.slot(slot_ + kLogSumExp) = log_sum_exp;
  if (!context.computing()) return;
  const float* q = in.as<float>();
  kernels::attention_forward(*context.pool, out.as<float>(), log_sum_exp.as<float>(), q, q + width_, q + 2 * width_,
                             attention_shape(in, width_, heads_));
}

void CausalAttention::backward_input(Context& context, ParameterViews, const Tensor& dout, const Tensor& din,
                                     Saved& saved) const {
  if (!context.computing() || din.data == nullptr) return;
  const Tensor& in = saved.slot(slot_ + kInput);
  const float* q = in.as<float>();
  float* dq = din.as<float>();
  kernels::attention_backward_input(*context.pool, dq, dq + width_, dq + 2 * width_, dout.as<float>(),
                                    saved.slot(slot_ + kOutput).as<float>(), saved.slot(slot_ + kLogSumExp).as<float>(),
                                    q, q + width_, q + 2 * width_, attention_shape(in, width_, heads_));
}

}  // namespace trireme
