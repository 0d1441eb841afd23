// Arithmetic: what one reduction does to elements, in blocks and with as many roundings
// as the plan says.
//
// Elements are values of the call's type. Accumulators are the same, except in a wide
// reduction (sums, products and averages of low-precision types), where they are f32.
// Finishing scales an average and, in a wide reduction, rounds to an element: once.
// Thread safety: pure functions of their arguments; nothing is allocated.
#pragma once

#include <cstddef>
#include <span>

#include <trireme/base/data_type.h>
#include <trireme/collectives/reduction.h>
#include <trireme/kernels/reduce.h>

namespace trireme {

// Whether partial results of this reduction are wider than its elements.
bool is_wide_reduction(DataType type, ReduceOp op);

class Arithmetic {
 public:
  Arithmetic() = default;
  Arithmetic(DataType type, ReduceOp op, bool wide, int ranks);
  // From now on combines by the caller's function (null: by the operation again).
  // REQUIRES: it outlives its use; not wide.
  void set_custom(const CustomReduction* custom) { custom_ = custom; }

  struct Operand {
    const std::byte* data;
    bool accumulator;
  };
  struct Target {
    std::byte* data;
    bool accumulator;
  };

  std::size_t bytes_of(bool accumulator) const { return accumulator ? accumulator_bytes_ : element_bytes_; }
  bool wide() const { return wide_; }

  // target = source. Pointers need their elements' alignment; equal or disjoint.
  void convert(Target target, Operand source, std::size_t count, bool finish) const;
  // Each of `targets` = sources[0] (op) sources[1] (op) ..., in this order; of one source, a
  // copy. All are elements; a target may be one of the sources.
  struct Destination {
    std::byte* data;
    bool past_caches;  // Stored past this processor's caches: others will read it, or nobody soon.
  };
  void combine_all(std::span<const Destination> targets, std::span<const std::byte* const> sources, std::size_t count,
                   bool finish) const;
  // target = left (op) right.
  void combine(Target target, Operand left, Operand right, std::size_t count, bool finish) const;

 private:
  void combine_wide(Target target, Operand left, Operand right, std::size_t count, bool finish) const;
  const std::byte* combine_block(std::byte* block, float* wide, std::span<const std::byte* const> sources,
                                 std::size_t first, std::size_t count, bool finish) const;
  void store_wide(Target target, float* values, std::size_t count, bool finish) const;
  void scale(void* data, std::size_t count, DataType type) const;

  DataType type_ = DataType::u8;
  bool wide_ = false;
  bool average_ = false;
  int ranks_ = 1;
  std::size_t element_bytes_ = 1;
  std::size_t accumulator_bytes_ = 1;
  const CustomReduction* custom_ = nullptr;
  kernels::ReduceFunction reduce_elements_ = nullptr;
  kernels::ReduceFunction reduce_floats_ = nullptr;
};

}  // namespace trireme
