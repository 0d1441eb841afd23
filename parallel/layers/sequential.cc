// Between child i and child i + 1 lies one tensor. Forward allocates it on the stack of
// the longest lifetime that either side asks for. In backward() the gradients between
// children are released when the last one has been used, so a block's gradients reuse
// the cache lines of the block after it; backward_input() must keep them for
// backward_weight().
#include <algorithm>

#include <trireme/base/check.h>
#include <trireme/parallel/containers.h>

namespace trireme {

Sequential& Sequential::add(std::string name, std::unique_ptr<Module> child) {
  children_.push_back({std::move(name), std::move(child)});
  return *this;
}

void Sequential::declare(Declaration& declaration) {
  TRIREME_CHECK(!children_.empty(), "a Sequential needs a child");
  slot_ = declaration.slots(static_cast<int>(children_.size()));
  for (Child& child : children_) {
    declaration.enter(child.name);
    child.module->declare(declaration);
    declaration.leave();
  }
}

Shape Sequential::output_shape(const Shape& input) const {
  Shape shape = input;
  for (const Child& child : children_) shape = child.module->output_shape(shape);
  return shape;
}

Lifetime Sequential::input_lifetime() const {
  return children_.front().module->input_lifetime();
}

Lifetime Sequential::output_lifetime() const {
  return children_.back().module->output_lifetime();
}

void Sequential::forward(Context& context, ParameterViews parameters, const Tensor& in, const Tensor& out,
                         Saved& saved) const {
  SavedScope scope(saved, Lifetime::forward);
  Tensor current = in;
  for (std::size_t i = 0; i < children_.size(); ++i) {
    const Module& module = *children_[i].module;
    Tensor next = out;
    if (i + 1 < children_.size()) {
      const Lifetime lifetime = std::max(module.output_lifetime(), children_[i + 1].module->input_lifetime());
      next = saved.allocate(context, lifetime, module.output_shape(current.shape));
    }
    saved.slot(slot_ + static_cast<int>(i)) = current;
    module.forward(context, parameters, current, next, saved);
    current = next;
  }
}

Tensor Sequential::input_gradient(Context& context, std::size_t child, const Tensor& din, Saved& saved) const {
  if (child == 0) return din;
  const Tensor& input = saved.slot(slot_ + static_cast<int>(child));
  return saved.allocate(context, Lifetime::backward_weight, input.shape);
}

void Sequential::backward_input(Context& context, ParameterViews parameters, const Tensor& dout, const Tensor& din,
                                Saved& saved) const {
  Tensor gradient = dout;
  for (std::size_t i = children_.size(); i-- > 0;) {
    const Tensor next = input_gradient(context, i, din, saved);
    children_[i].module->backward_input(context, parameters, gradient, next, saved);
    gradient = next;
  }
}

void Sequential::backward_weight(Context& context, Saved& saved, GradientSink& sink) const {
  for (std::size_t i = children_.size(); i-- > 0;) children_[i].module->backward_weight(context, saved, sink);
}

void Sequential::backward(Context& context, ParameterViews parameters, const Tensor& dout, const Tensor& din,
                          Saved& saved, GradientSink& sink) const {
  SavedScope scope(saved, Lifetime::backward_weight);
  Tensor gradient = dout;
  for (std::size_t i = children_.size(); i-- > 0;) {
    const Tensor next = input_gradient(context, i, din, saved);
    children_[i].module->backward(context, parameters, gradient, next, saved, sink);
    gradient = next;
  }
}

}  // namespace trireme
