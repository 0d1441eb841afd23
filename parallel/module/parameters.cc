#include <trireme/parallel/parameters.h>

#include <algorithm>

#include <trireme/base/philox.h>

namespace trireme {

namespace {

constexpr std::size_t kAlignmentElements = 16;

void fill(float* out, std::size_t count, const Initializer& initializer, PhiloxKey key) {
  switch (initializer.kind) {
    case Initializer::Kind::zeros:
      std::fill_n(out, count, 0.0f);
      break;
    case Initializer::Kind::ones:
      std::fill_n(out, count, 1.0f);
      break;
    case Initializer::Kind::normal:
      for (std::size_t i = 0; i < count; ++i) out[i] = initializer.deviation * philox_normal(key, 0, i);
      break;
  }
}

}  // namespace

int Declaration::parameter(ParameterSpec spec) {
  std::string full_name;
  for (const std::string& part : path_) full_name += part + ".";
  spec.name = full_name + spec.name;
  for (const ParameterSpec& other : parameters_) {
    TRIREME_CHECK(other.name != spec.name, "two parameters of one model have the same name");
  }
  parameters_.push_back(std::move(spec));
  return static_cast<int>(parameters_.size()) - 1;
}

void Declaration::use_again(int id) {
  TRIREME_CHECK(id >= 0 && id < static_cast<int>(parameters_.size()), "a tied parameter must be declared first");
  ++parameters_[static_cast<std::size_t>(id)].users;
}

int Declaration::slots(int count) {
  const int first = slots_;
  slots_ += count;
  return first;
}

void Declaration::enter(const std::string& name) {
  path_.push_back(name);
}

void Declaration::leave() {
  path_.pop_back();
}

ParameterLayout::ParameterLayout(std::vector<ParameterSpec> specs) : specs_(std::move(specs)) {
  for (const ParameterSpec& spec : specs_) {
    const auto elements = static_cast<std::size_t>(spec.shape.elements());
    offsets_.push_back(flat_elements_);
    parameter_elements_ += spec.shape.elements();
    const std::size_t begin = flat_elements_;
    flat_elements_ += (elements + kAlignmentElements - 1) / kAlignmentElements * kAlignmentElements;
    if (!groups_.empty() && groups_.back().decay == spec.decay) {
      groups_.back().end = flat_elements_;
    } else {
      groups_.push_back({begin, flat_elements_, spec.decay});
    }
  }
}

std::vector<Tensor> ParameterLayout::views(float* flat) const {
  std::vector<Tensor> views;
  for (int id = 0; id < count(); ++id) views.push_back({flat + offset(id), DataType::f32, spec(id).shape});
  return views;
}

void ParameterLayout::initialize(float* flat, std::uint64_t seed) const {
  std::fill_n(flat, flat_elements_, 0.0f);
  for (int id = 0; id < count(); ++id) {
    const auto purpose = static_cast<std::uint32_t>(RandomPurpose::initialization);
    fill(flat + offset(id), elements(id), spec(id).initializer,
         make_philox_key(seed, purpose, static_cast<std::uint32_t>(id)));
  }
}

}  // namespace trireme
