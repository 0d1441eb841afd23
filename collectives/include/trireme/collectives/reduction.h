// Reduction: how the contributions of all ranks become one value.
//
// One of the named operations (ReduceOp converts by itself), a sum of contributions that
// each rank scales first, or a function of the caller's. All ranks pass the same kind,
// operation and name; that is checked on every call. Factors may differ by rank.
//
// Order: a commuting reduction is combined in the plan's fixed order; one that does not
// commute strictly in order of rank: ((0 1) (2 3)) or any other bracketing, but never 1
// before 0. The function must be associative; only then all algorithms agree on bits.
// Thread safety: values.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include <trireme/base/data_type.h>

namespace trireme {

// A reduction of the caller's own.
struct CustomReduction {
  std::string name;         // For messages; equal on all ranks.
  bool commutative = true;  // False: operands are combined in order of rank.
  // out[i] = left[i] combined with right[i] for `count` elements of the call's type. `out`
  // may be `left` or `right`. Called by whichever thread moves the operation, with
  // pointers aligned to an element; it must not throw, block, or call the communicator.
  std::function<void(void* out, const void* left, const void* right, std::size_t count)> combine;
};

class Reduction {
 public:
  enum class Kind : unsigned char { named = 0, scaled_sum, custom };

  Reduction(ReduceOp op) : op_(op) {}
  // The sum over ranks of factor * contribution; `factor` is this rank's own. Integer
  // types need a whole factor. Products are in the element's type, in f32 for
  // low-precision types, whose sum is still rounded once. Needs a copy of the input.
  static Reduction scaled_sum(double factor) {
    Reduction reduction(ReduceOp::sum);
    reduction.kind_ = Kind::scaled_sum;
    reduction.factor_ = factor;
    return reduction;
  }
  static Reduction custom(CustomReduction function) {
    Reduction reduction(ReduceOp::sum);
    reduction.kind_ = Kind::custom;
    reduction.function_ = std::make_shared<const CustomReduction>(std::move(function));
    return reduction;
  }

  Kind kind() const { return kind_; }
  ReduceOp op() const { return op_; }  // Of a named one.
  double factor() const { return factor_; }
  const std::shared_ptr<const CustomReduction>& function() const { return function_; }

 private:
  Kind kind_ = Kind::named;
  ReduceOp op_;
  double factor_ = 1;
  std::shared_ptr<const CustomReduction> function_;
};

}  // namespace trireme
