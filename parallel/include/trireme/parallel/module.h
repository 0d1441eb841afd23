// Module: a differentiable piece of a model, without state.
//
// A module holds its sizes and the ids of its parameters, nothing that changes while
// training. Parameters are passed in as views, what forward remembers for backward goes
// into a Saved, gradients go to a GradientSink. The caller allocates inputs and
// outputs, so containers decide how long every tensor lives.
//
// Backward has two halves, as zero-bubble pipelines need: backward_input (the gradient
// of the input; others wait for it) and backward_weight (the gradients of the
// parameters; nobody waits). backward() is both, layer by layer: what schedules that do
// not split use, since gradients are then complete earlier and memory is reused.
//
// A Saved belongs to one microbatch. It has three stacks of memory, by how long what
// lies there is needed (Lifetime).
//
// Errors are sticky in the Context: after the first one (an arena is too small) modules
// do nothing, and the step that called them reports it. In a dry context nothing is
// computed or read, but every allocation is counted: a dry step is the memory plan.
//
// Thread safety: const methods may run at the same time with different Context and Saved.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <trireme/base/status.h>
#include <trireme/device/thread_pool.h>
#include <trireme/memory/arena.h>
#include <trireme/parallel/mesh.h>
#include <trireme/parallel/parameters.h>
#include <trireme/tensor/tensor.h>

namespace trireme {

// How long a tensor that forward makes must stay readable.
enum class Lifetime {
  forward,          // Until the container that asked for it has finished its forward.
  backward_input,   // Until backward_input has finished.
  backward_weight,  // Until backward_weight has finished.
};
inline constexpr int kLifetimeCount = 3;

// What modules compute with.
struct Context {
  ThreadPool* pool = &inline_pool();
  const Mesh* mesh = nullptr;
  // Type of the operands of matrix products: f32, or bf16 (rounded; sums stay f32).
  DataType product_type = DataType::f32;
  std::uint64_t seed = 0;
  // Global sample ordinal of each sequence in the microbatch: counters of random numbers.
  std::span<const std::uint64_t> sample_ordinals;
  bool dry = false;
  Status error;

  bool computing() const { return !dry && error.is_ok(); }
  void fail(Status status) {
    if (error.is_ok()) error = std::move(status);
  }
};

// Memory of one microbatch.
class Saved {
 public:
  // Bytes needed of each stack.
  struct Sizes {
    std::array<std::size_t, kLifetimeCount> bytes{};
  };
  // A Saved that only counts, for a dry Context.
  explicit Saved(int slots);
  // Errors: resource_exhausted when the machine does not have the memory.
  static Result<Saved> create(int slots, const Sizes& sizes);

  // Contents unspecified. On exhaustion the context fails and the tensor has no data.
  Tensor allocate(Context& context, Lifetime lifetime, const Shape& shape, DataType type = DataType::f32);
  // A module's memory between its calls; see Declaration::slots.
  Tensor& slot(int index) { return slots_[static_cast<std::size_t>(index)]; }

  std::size_t mark(Lifetime lifetime) const { return used_[static_cast<std::size_t>(lifetime)]; }
  // REQUIRES: what was allocated after `mark` is no longer needed.
  void release(Lifetime lifetime, std::size_t mark);
  void release_all();
  Sizes high_water() const { return high_water_; }

 private:
  std::vector<Tensor> slots_;
  std::vector<Arena> arenas_;  // None when only counting.
  std::array<std::size_t, kLifetimeCount> used_{};
  Sizes high_water_;
};

// Releases, at the end of a scope, what was allocated in it.
class SavedScope {
 public:
  SavedScope(Saved& saved, Lifetime lifetime) : saved_(saved), lifetime_(lifetime), mark_(saved.mark(lifetime)) {}
  ~SavedScope() { saved_.release(lifetime_, mark_); }
  SavedScope(const SavedScope&) = delete;
  SavedScope& operator=(const SavedScope&) = delete;

 private:
  Saved& saved_;
  Lifetime lifetime_;
  std::size_t mark_;
};

// Takes the gradients of parameters.
class GradientSink {
 public:
  virtual ~GradientSink() = default;
  // Where contributions are added; zero before the first one of a step.
  virtual float* gradient(int parameter) = 0;
  // One user has added its contribution of this microbatch.
  virtual void complete(int parameter) = 0;
};

class Module {
 public:
  virtual ~Module() = default;
  // Declares parameters and slots. Called once, before anything else.
  virtual void declare(Declaration& declaration) = 0;
  virtual Shape output_shape(const Shape& input) const = 0;
  // How long the tensors given as `in` and `out` of forward must stay readable.
  virtual Lifetime input_lifetime() const = 0;
  virtual Lifetime output_lifetime() const { return Lifetime::forward; }

  virtual void forward(Context& context, ParameterViews parameters, const Tensor& in, const Tensor& out,
                       Saved& saved) const = 0;
  // Writes the gradient of `in` to `din` from that of `out`. `dout` stays readable until
  // backward_weight has run. A `din` without data (the input is tokens) is not written.
  virtual void backward_input(Context& context, ParameterViews parameters, const Tensor& dout, const Tensor& din,
                              Saved& saved) const = 0;
  virtual void backward_weight(Context& context, Saved& saved, GradientSink& sink) const;
  // Both halves; gradients inside may be freed as soon as both are done with them.
  virtual void backward(Context& context, ParameterViews parameters, const Tensor& dout, const Tensor& din,
                        Saved& saved, GradientSink& sink) const;
};

}  // namespace trireme
