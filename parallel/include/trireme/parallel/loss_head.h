// LossHead: what turns a model's last activation into a loss.
//
// One fused call computes the loss and, since nothing waits between them, the gradient
// of its input and of its own parameters: logits exist a block of rows at a time only.
// Thread safety: as Module.
#pragma once

#include <cstdint>

#include <trireme/parallel/module.h>

namespace trireme {

inline constexpr std::int32_t kIgnoredTarget = -1;

class LossHead {
 public:
  // Without `tied_table` the head declares its own matrix "weight" [vocabulary, width].
  LossHead(std::int64_t width, std::int64_t vocabulary) : width_(width), vocabulary_(vocabulary) {}
  // tied_table: id of an earlier parameter [vocabulary, width], or -1.
  void declare(Declaration& declaration, int tied_table);

  // The sum of the losses of the targets counted, in nats; writes dh, the gradient of
  // `scale` times that sum, and adds the head's own gradient to the sink. Targets are
  // i32, one for each row of h, or kIgnoredTarget.
  double loss_and_gradient(Context& context, ParameterViews parameters, const Tensor& h, const Tensor& targets,
                           float scale, const Tensor& dh, Saved& saved, GradientSink& sink) const;
  // The sum of the losses only.
  double loss(Context& context, ParameterViews parameters, const Tensor& h, const Tensor& targets, Saved& saved) const;
  // logits[vocabulary] of one row of h.
  void logits(Context& context, ParameterViews parameters, const float* h_row, float* logits) const;

  std::int64_t vocabulary() const { return vocabulary_; }

 private:
  Tensor scratch(Context& context, const Tensor& h, Saved& saved) const;
  std::int64_t width_, vocabulary_;
  int weight_ = -1;
};

}  // namespace trireme
