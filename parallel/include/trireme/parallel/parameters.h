// Parameters: what a model learns, declared once and kept in flat buffers.
//
// A model's layers declare their parameters in order; the order numbers them. All of a
// model's parameters lie in one flat f32 buffer, each at an offset that is a multiple of
// 16 elements (the gaps stay zero), and gradients and optimizer moments in buffers of
// the same layout. So a bucket of gradients is one contiguous range, an optimizer step
// one sweep, and a shard of a checkpoint a range.
//
// Initial values are a pure function of (seed, parameter id, element): they do not
// depend on ranks, threads or layout.
// Thread safety: values; const access from several threads is safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <trireme/tensor/tensor.h>

namespace trireme {

struct Initializer {
  enum class Kind { zeros, ones, normal };
  Kind kind = Kind::zeros;
  float deviation = 0.0f;  // For normal, of mean 0.
};

struct ParameterSpec {
  std::string name;  // "h.0.attn.c_attn.weight"
  Shape shape;
  Initializer initializer;
  bool decay = false;  // Weight decay applies: matrices, not norms and biases.
  int users = 1;       // Layers that add a gradient each microbatch; 2 when tied.
};

// The views a module's forward is given, by parameter id.
using ParameterViews = std::span<const Tensor>;

// Collects declarations; the containers add the path of names.
class Declaration {
 public:
  // Returns the parameter's id. REQUIRES: the full name is new.
  int parameter(ParameterSpec spec);
  // A further user of an earlier parameter (a tied weight).
  void use_again(int id);
  // Reserves places in a Saved for what a module remembers between its calls.
  int slots(int count);
  void enter(const std::string& name);
  void leave();

  const std::vector<ParameterSpec>& parameters() const { return parameters_; }
  int slot_count() const { return slots_; }

 private:
  std::vector<ParameterSpec> parameters_;
  std::vector<std::string> path_;
  int slots_ = 0;
};

// Where each parameter lies in the flat buffers.
class ParameterLayout {
 public:
  ParameterLayout() = default;
  explicit ParameterLayout(std::vector<ParameterSpec> specs);

  int count() const { return static_cast<int>(specs_.size()); }
  const ParameterSpec& spec(int id) const { return specs_[static_cast<std::size_t>(id)]; }
  std::size_t offset(int id) const { return offsets_[static_cast<std::size_t>(id)]; }
  std::size_t elements(int id) const { return static_cast<std::size_t>(spec(id).shape.elements()); }
  // Of the flat buffers, gaps included.
  std::size_t flat_elements() const { return flat_elements_; }
  // What the model learns, gaps left out.
  std::int64_t parameter_elements() const { return parameter_elements_; }
  std::vector<Tensor> views(float* flat) const;
  // Writes every parameter's initial value and zeros into the gaps.
  void initialize(float* flat, std::uint64_t seed) const;

  // A maximal range of the flat buffer with one answer to "does decay apply".
  struct Group {
    std::size_t begin = 0;
    std::size_t end = 0;
    bool decay = false;
  };
  const std::vector<Group>& groups() const { return groups_; }

 private:
  std::vector<ParameterSpec> specs_;
  std::vector<std::size_t> offsets_;
  std::vector<Group> groups_;
  std::size_t flat_elements_ = 0;
  std::int64_t parameter_elements_ = 0;
};

// Purposes of random numbers (make_philox_key): one list, so that no two streams meet.
enum class RandomPurpose : std::uint32_t { initialization = 1, sampling = 2, generation = 3, dropout = 4 };

}  // namespace trireme
