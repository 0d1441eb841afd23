#include <trireme/parallel/module.h>

#include <algorithm>

#include <trireme/base/check.h>

namespace trireme {

namespace {

constexpr std::size_t kAlignmentBytes = 64;
constexpr const char* kStackNames[kLifetimeCount] = {"forward", "backward-input", "backward-weight"};

std::size_t padded(std::size_t bytes) {
  return (bytes + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes;
}

}  // namespace

Saved::Saved(int slots) : slots_(static_cast<std::size_t>(slots)) {}

Result<Saved> Saved::create(int slots, const Sizes& sizes) {
  Saved saved(slots);
  for (std::size_t i = 0; i < kLifetimeCount; ++i) {
    const std::size_t bytes = std::max(sizes.bytes[i], kAlignmentBytes);
    TRIREME_ASSIGN_OR_RETURN(Arena arena, Arena::create(std::string("activations until ") + kStackNames[i], bytes));
    saved.arenas_.push_back(std::move(arena));
  }
  return saved;
}

Tensor Saved::allocate(Context& context, Lifetime lifetime, const Shape& shape, DataType type) {
  const auto stack = static_cast<std::size_t>(lifetime);
  Tensor tensor{nullptr, type, shape};
  const std::size_t bytes = padded(tensor.bytes());
  if (!arenas_.empty() && context.error.is_ok()) {
    Result<void*> memory = arenas_[stack].allocate(bytes);
    if (!memory.is_ok()) {
      context.fail(memory.status());
      return tensor;
    }
    tensor.data = memory.value();
  }
  used_[stack] = arenas_.empty() ? used_[stack] + bytes : arenas_[stack].mark();
  high_water_.bytes[stack] = std::max(high_water_.bytes[stack], used_[stack]);
  return tensor;
}

void Saved::release(Lifetime lifetime, std::size_t mark) {
  const auto stack = static_cast<std::size_t>(lifetime);
  TRIREME_DCHECK(mark <= used_[stack], "stacks of saved tensors are released last in, first out");
  used_[stack] = mark;
  if (!arenas_.empty()) arenas_[stack].release(mark);
}

void Saved::release_all() {
  for (int i = 0; i < kLifetimeCount; ++i) release(static_cast<Lifetime>(i), 0);
}

void Module::backward_weight(Context&, Saved&, GradientSink&) const {}

void Module::backward(Context& context, ParameterViews parameters, const Tensor& dout, const Tensor& din, Saved& saved,
                      GradientSink& sink) const {
  backward_input(context, parameters, dout, din, saved);
  backward_weight(context, saved, sink);
}

}  // namespace trireme
