// Every kernel that takes a ThreadPool exists twice with one signature, in namespaces
// `fast` and `reference`; a KernelSet holds one of each. The list below is the one place
// that names them all: it declares both versions from the public declaration and makes the
// table's columns. A new kernel is one line here, its public function (public.cc), and its
// two definitions.
#pragma once

#include <string>

#include <trireme/kernels/cross_entropy.h>
#include <trireme/kernels/elementwise.h>
#include <trireme/kernels/matmul.h>
#include <trireme/kernels/transformer.h>

#include "kernels/cpu/simd/reduce_table.h"

#define TRIREME_KERNEL_LIST(X)  \
  X(matmul)                     \
  X(linear_forward)             \
  X(linear_backward_input)      \
  X(linear_backward_weight)     \
  X(embedding_forward)          \
  X(embedding_backward_weight)  \
  X(layer_norm_forward)         \
  X(layer_norm_backward_input)  \
  X(layer_norm_backward_weight) \
  X(gelu_forward)               \
  X(gelu_backward)              \
  X(residual_add)               \
  X(attention_forward)          \
  X(attention_backward_input)   \
  X(head_cross_entropy)         \
  X(head_loss)                  \
  X(head_logits)                \
  X(adamw_step)                 \
  X(sum_of_squares)             \
  X(scale)                      \
  X(axpy)                       \
  X(find_non_finite)            \
  X(convert_to_bf16)            \
  X(convert_to_f32)

namespace trireme::kernels {

#define TRIREME_DECLARE(name) decltype(kernels::name) name;
namespace fast {
TRIREME_KERNEL_LIST(TRIREME_DECLARE)
}  // namespace fast
namespace reference {
TRIREME_KERNEL_LIST(TRIREME_DECLARE)
}  // namespace reference
#undef TRIREME_DECLARE

struct KernelSet {
#define TRIREME_MEMBER(name) decltype(&kernels::name) name;
  TRIREME_KERNEL_LIST(TRIREME_MEMBER)
#undef TRIREME_MEMBER
  const ReduceTable* (*reduce)();
  std::string (*describe)();
};

const KernelSet& fast_kernels();
const KernelSet& reference_kernels();
// The one this process runs (kernel_choice.h).
const KernelSet& active_kernels();

}  // namespace trireme::kernels
