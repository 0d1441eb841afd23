#include <trireme/kernels/transformer.h>
#include <trireme/parallel/layers.h>

#include "parallel/layers/layer_support.h"

namespace trireme {

namespace {
constexpr float kDeviation = 0.02f;  // GPT-2's.
}  // namespace

Embedding::Embedding(std::int64_t vocabulary, std::int64_t positions, std::int64_t width)
    : vocabulary_(vocabulary), positions_(positions), width_(width) {}

void Embedding::declare(Declaration& declaration) {
  const Initializer normal{Initializer::Kind::normal, kDeviation};
  token_table_ = declaration.parameter({"wte", {vocabulary_, width_}, normal, true});
  position_table_ = declaration.parameter({"wpe", {positions_, width_}, normal, true});
  slot_ = declaration.slots(2);
}

void Embedding::forward(Context& context, ParameterViews parameters, const Tensor& in, const Tensor& out,
                        Saved& saved) const {
  saved.slot(slot_) = in;
  if (!context.computing()) return;
  if (in.shape[1] > positions_) {
    context.fail(invalid_argument("embedding: a sequence is longer than the model's position table"));
    return;
  }
  const kernels::EmbeddingShape shape{in.elements(), width_, vocabulary_, in.shape[1]};
  kernels::embedding_forward(*context.pool, out.as<float>(), values(parameters, token_table_),
                             values(parameters, position_table_), in.as<std::int32_t>(), shape);
}

void Embedding::backward_input(Context&, ParameterViews, const Tensor& dout, const Tensor&, Saved& saved) const {
  saved.slot(slot_ + 1) = dout;  // Tokens have no gradient.
}

void Embedding::backward_weight(Context& context, Saved& saved, GradientSink& sink) const {
  if (!context.computing()) return;
  const Tensor& in = saved.slot(slot_);
  const kernels::EmbeddingShape shape{in.elements(), width_, vocabulary_, in.shape[1]};
  kernels::embedding_backward_weight(*context.pool, sink.gradient(token_table_), sink.gradient(position_table_),
                                     saved.slot(slot_ + 1).as<float>(), in.as<std::int32_t>(), shape);
  sink.complete(position_table_);
  sink.complete(token_table_);
}

}  // namespace trireme
