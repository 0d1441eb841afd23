// Containers: modules made of modules.
//
// Sequential runs its children in order; Residual adds its branch to its input. They
// decide how long the tensors between children live, from what the children ask for.
// Thread safety: as Module.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <trireme/parallel/module.h>

namespace trireme {

class Sequential final : public Module {
 public:
  // `name` becomes part of the names of the child's parameters. Returns *this.
  Sequential& add(std::string name, std::unique_ptr<Module> child);
  // Makes the child in place.
  template <typename Child, typename... Arguments>
  Sequential& add(std::string name, Arguments&&... arguments) {
    return add(std::move(name), std::make_unique<Child>(std::forward<Arguments>(arguments)...));
  }
  std::size_t size() const { return children_.size(); }

  void declare(Declaration& declaration) override;
  Shape output_shape(const Shape& input) const override;
  Lifetime input_lifetime() const override;
  Lifetime output_lifetime() const override;
  void forward(Context& context, ParameterViews parameters, const Tensor& in, const Tensor& out,
               Saved& saved) const override;
  void backward_input(Context& context, ParameterViews parameters, const Tensor& dout, const Tensor& din,
                      Saved& saved) const override;
  void backward_weight(Context& context, Saved& saved, GradientSink& sink) const override;
  void backward(Context& context, ParameterViews parameters, const Tensor& dout, const Tensor& din, Saved& saved,
                GradientSink& sink) const override;

 private:
  struct Child {
    std::string name;
    std::unique_ptr<Module> module;
  };
  Tensor input_gradient(Context& context, std::size_t child, const Tensor& din, Saved& saved) const;
  std::vector<Child> children_;
  int slot_ = 0;  // The input of each child: its shape is what backward needs.
};

// out = in + branch(in)
class Residual final : public Module {
 public:
  explicit Residual(std::unique_ptr<Module> branch) : branch_(std::move(branch)) {}

  void declare(Declaration& declaration) override;
  Shape output_shape(const Shape& input) const override { return input; }
  Lifetime input_lifetime() const override { return branch_->input_lifetime(); }
  void forward(Context& context, ParameterViews parameters, const Tensor& in, const Tensor& out,
               Saved& saved) const override;
  void backward_input(Context& context, ParameterViews parameters, const Tensor& dout, const Tensor& din,
                      Saved& saved) const override;
  void backward_weight(Context& context, Saved& saved, GradientSink& sink) const override;
  void backward(Context& context, ParameterViews parameters, const Tensor& dout, const Tensor& din, Saved& saved,
                GradientSink& sink) const override;

 private:
  std::unique_ptr<Module> branch_;
};

}  // namespace trireme
