// The layers of a GPT-2-style transformer as modules.
//
// Activations are f32 tensors [sequences, tokens, width]; the embedding's input is i32
// tokens [sequences, tokens]. Each layer's mathematics is in <trireme/kernels/...>.
// Thread safety: as Module.
#pragma once

#include <cstdint>

#include <trireme/parallel/module.h>

namespace trireme {

// Token embedding plus learned position embedding. Parameters: "wte", "wpe".
class Embedding final : public Module {
 public:
  Embedding(std::int64_t vocabulary, std::int64_t positions, std::int64_t width);
  void declare(Declaration& declaration) override;
  Shape output_shape(const Shape& input) const override { return {input[0], input[1], width_}; }
  Lifetime input_lifetime() const override { return Lifetime::backward_weight; }
  void forward(Context& context, ParameterViews parameters, const Tensor& in, const Tensor& out,
               Saved& saved) const override;
  void backward_input(Context& context, ParameterViews parameters, const Tensor& dout, const Tensor& din,
                      Saved& saved) const override;
  void backward_weight(Context& context, Saved& saved, GradientSink& sink) const override;
  // The token table, for a head that shares it. REQUIRES: declared.
  int token_table() const { return token_table_; }

 private:
  std::int64_t vocabulary_, positions_, width_;
  int token_table_ = -1, position_table_ = -1, slot_ = 0;
};

// y = x W^T + b with W [out, in]. Parameters: "weight", "bias".
class Linear final : public Module {
 public:
  // Weights start normal with `deviation`, the bias at zero.
  Linear(std::int64_t in, std::int64_t out, float deviation) : in_(in), out_(out), deviation_(deviation) {}
  void declare(Declaration& declaration) override;
  Shape output_shape(const Shape& input) const override { return {input[0], input[1], out_}; }
  Lifetime input_lifetime() const override { return Lifetime::backward_weight; }
  void forward(Context& context, ParameterViews parameters, const Tensor& in, const Tensor& out,
               Saved& saved) const override;
  void backward_input(Context& context, ParameterViews parameters, const Tensor& dout, const Tensor& din,
                      Saved& saved) const override;
  void backward_weight(Context& context, Saved& saved, GradientSink& sink) const override;

 private:
  std::int64_t in_, out_;
  float deviation_;
  int weight_ = -1, bias_ = -1, slot_ = 0;
};

// Parameters: "weight" (starts at one), "bias".
class LayerNorm final : public Module {
 public:
  explicit LayerNorm(std::int64_t width) : width_(width) {}
  void declare(Declaration& declaration) override;
  Shape output_shape(const Shape& input) const override { return input; }
  Lifetime input_lifetime() const override { return Lifetime::backward_weight; }
  void forward(Context& context, ParameterViews parameters, const Tensor& in, const Tensor& out,
               Saved& saved) const override;
  void backward_input(Context& context, ParameterViews parameters, const Tensor& dout, const Tensor& din,
                      Saved& saved) const override;
  void backward_weight(Context& context, Saved& saved, GradientSink& sink) const override;

 private:
  std::int64_t width_;
  int gamma_ = -1, beta_ = -1, slot_ = 0;
};

// The tanh form, as in GPT-2. No parameters.
class GeluLayer final : public Module {
 public:
  void declare(Declaration& declaration) override { slot_ = declaration.slots(1); }
  Shape output_shape(const Shape& input) const override { return input; }
  Lifetime input_lifetime() const override { return Lifetime::backward_input; }
  void forward(Context& context, ParameterViews parameters, const Tensor& in, const Tensor& out,
               Saved& saved) const override;
  void backward_input(Context& context, ParameterViews parameters, const Tensor& dout, const Tensor& din,
                      Saved& saved) const override;

 private:
  int slot_ = 0;
};

// Causal multi-head self-attention on [.., 3 * width] holding queries, keys and values.
// No parameters. REQUIRES: heads divides width; width / heads <= kernels::kHeadDimMax.
class CausalAttention final : public Module {
 public:
  CausalAttention(std::int64_t width, std::int64_t heads) : width_(width), heads_(heads) {}
  void declare(Declaration& declaration) override { slot_ = declaration.slots(3); }
  Shape output_shape(const Shape& input) const override { return {input[0], input[1], width_}; }
  Lifetime input_lifetime() const override { return Lifetime::backward_input; }
  Lifetime output_lifetime() const override { return Lifetime::backward_input; }
  void forward(Context& context, ParameterViews parameters, const Tensor& in, const Tensor& out,
               Saved& saved) const override;
  void backward_input(Context& context, ParameterViews parameters, const Tensor& dout, const Tensor& din,
                      Saved& saved) const override;

 private:
  std::int64_t width_, heads_;
  int slot_ = 0;
};

}  // namespace trireme
