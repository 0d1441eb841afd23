#include <trireme/parallel/model.h>

#include <trireme/parallel/layers.h>

namespace trireme {

namespace {

// Takes the dry step's gradients, of which there are none.
class NoSink final : public GradientSink {
 public:
  float* gradient(int) override { return nullptr; }
  void complete(int) override {}
};

}  // namespace

Model::Model(std::unique_ptr<Sequential> body, LossHead head, const Embedding* tied_table)
    : body_(std::move(body)), head_(head) {
  Declaration declaration;
  body_->declare(declaration);
  declaration.enter("head");
  head_.declare(declaration, tied_table != nullptr ? tied_table->token_table() : -1);
  declaration.leave();
  layout_ = ParameterLayout(declaration.parameters());
  slots_ = declaration.slot_count();
}

Tensor Model::run_body(Context& context, ParameterViews parameters, const Tensor& tokens, Saved& saved) const {
  const Tensor h = saved.allocate(context, Lifetime::backward_weight, body_->output_shape(tokens.shape));
  body_->forward(context, parameters, tokens, h, saved);
  return h;
}

double Model::forward_backward(Context& context, ParameterViews parameters, const Tensor& tokens, const Tensor& targets,
                               float scale, Saved& saved, GradientSink& sink) const {
  const Tensor h = run_body(context, parameters, tokens, saved);
  const Tensor dh = saved.allocate(context, Lifetime::backward_weight, h.shape);
  const double loss_sum = head_.loss_and_gradient(context, parameters, h, targets, scale, dh, saved, sink);
  body_->backward(context, parameters, dh, Tensor{}, saved, sink);
  saved.release_all();
  return loss_sum;
}

double Model::evaluate(Context& context, ParameterViews parameters, const Tensor& tokens, const Tensor& targets,
                       Saved& saved) const {
  const Tensor h = run_body(context, parameters, tokens, saved);
  const double loss_sum = head_.loss(context, parameters, h, targets, saved);
  saved.release_all();
  return loss_sum;
}

void Model::next_token_logits(Context& context, ParameterViews parameters, const Tensor& tokens, float* logits,
                              Saved& saved) const {
  const Tensor h = run_body(context, parameters, tokens, saved);
  if (context.computing()) {
    head_.logits(context, parameters, h.as<float>() + h.elements() - h.shape[2], logits);
  }
  saved.release_all();
}

Saved::Sizes Model::plan_memory(std::int64_t sequences, std::int64_t tokens) const {
  Context context;
  context.dry = true;
  Saved saved(slots_);
  NoSink sink;
  const Tensor ids{nullptr, DataType::i32, {sequences, tokens}};
  forward_backward(context, {}, ids, ids, 1.0f, saved, sink);
  return saved.high_water();
}

}  // namespace trireme
