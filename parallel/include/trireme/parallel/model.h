// Model: a body of modules and a loss head over one set of parameters.
//
// A model is a description: it holds no values. Where parameters, gradients and
// activations live is the training step's business (training_step.h).
// Thread safety: const methods as Module.
#pragma once

#include <cstdint>
#include <memory>

#include <trireme/base/status.h>
#include <trireme/parallel/containers.h>
#include <trireme/parallel/loss_head.h>

namespace trireme {

class Model {
 public:
  // `tied_table` names, after the body is declared, the parameter that the head shares:
  // give the body's embedding, or nullptr for a head with its own matrix.
  Model(std::unique_ptr<Sequential> body, LossHead head, const class Embedding* tied_table);

  const ParameterLayout& layout() const { return layout_; }
  const Module& body() const { return *body_; }
  const LossHead& head() const { return head_; }
  int slots() const { return slots_; }

  // Forward and backward of one microbatch: the sum of its losses; gradients of `scale`
  // times that sum go to the sink. tokens, targets: i32 [sequences, tokens].
  double forward_backward(Context& context, ParameterViews parameters, const Tensor& tokens, const Tensor& targets,
                          float scale, Saved& saved, GradientSink& sink) const;
  // The sum of the losses, without gradients.
  double evaluate(Context& context, ParameterViews parameters, const Tensor& tokens, const Tensor& targets,
                  Saved& saved) const;
  // The logits after the last token of the one sequence in `tokens` [1, n].
  void next_token_logits(Context& context, ParameterViews parameters, const Tensor& tokens, float* logits,
                         Saved& saved) const;
  // Bytes that a microbatch of `sequences` x `tokens` needs, found by a dry step.
  Saved::Sizes plan_memory(std::int64_t sequences, std::int64_t tokens) const;

 private:
  Tensor run_body(Context& context, ParameterViews parameters, const Tensor& tokens, Saved& saved) const;
  std::unique_ptr<Sequential> body_;
  LossHead head_;
  ParameterLayout layout_;
  int slots_ = 0;
};

// A GPT-2-style decoder: token and position embedding, `layers` blocks of pre-norm
// attention and a 4x wide GELU network, a final norm, a head.
struct GptConfig {
  std::int64_t layers = 4;
  std::int64_t width = 128;
  std::int64_t heads = 4;
  std::int64_t tokens = 128;  // Longest sequence.
  std::int64_t vocabulary = 256;
  bool tied = true;  // The head shares the token table.
  // Errors: invalid_argument naming the value, what is allowed, and the nearest that works.
  Status check() const;
  // Floating-point operations of a training step's matrix products and attention, per token.
  double flops_per_token() const;
};
// Errors: those of GptConfig::check().
Result<std::unique_ptr<Model>> make_gpt(const GptConfig& config);

}  // namespace trireme
