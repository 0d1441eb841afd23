#include "kernels/cpu/kernel_set.h"

#include <array>
#include <optional>

#include <trireme/kernels/kernel_choice.h>
#include <trireme/platform/environment.h>

#include "kernels/cpu/fast/onednn.h"
#include "kernels/cpu/reference/reduce.h"
#include "kernels/cpu/simd/simd_set.h"

namespace trireme::kernels {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr KernelChoice kDefaultChoice = KernelChoice::reference;
#else
constexpr KernelChoice kDefaultChoice = KernelChoice::fast;
#endif

struct Choice {
  KernelChoice choice;
  std::string_view name;
  const KernelSet& (*set)();
};
constexpr std::array kChoices = {
    Choice{KernelChoice::fast, "fast", &fast_kernels},
    Choice{KernelChoice::reference, "reference", &reference_kernels},
};

const Choice& row_of(KernelChoice choice) {
  for (const Choice& row : kChoices) {
    if (row.choice == choice) return row;
  }
  return kChoices[0];
}

const KernelSet& chosen_set() {
  const Result<KernelChoice> choice = kernel_choice();
  return row_of(choice.is_ok() ? *choice : kDefaultChoice).set();
}

}  // namespace

const KernelSet& fast_kernels() {
  static const KernelSet set = {
#define TRIREME_FAST(name) .name = &fast::name,
      TRIREME_KERNEL_LIST(TRIREME_FAST)
#undef TRIREME_FAST
          .reduce = [] { return simd().reduce; },
      .describe = [] { return "fast (" + std::string(simd().name) + ", " + onednn::version() + ")"; }};
  return set;
}

const KernelSet& reference_kernels() {
  static const KernelSet set = {
#define TRIREME_REFERENCE(name) .name = &reference::name,
      TRIREME_KERNEL_LIST(TRIREME_REFERENCE)
#undef TRIREME_REFERENCE
          .reduce = [] { return &reference::reduce_table(); },
      .describe = [] { return std::string("reference"); }};
  return set;
}

const KernelSet& active_kernels() {
  static const KernelSet& set = chosen_set();
  return set;
}

Result<KernelChoice> kernel_choice() {
  const std::optional<std::string> word = environment("TRIREME_KERNELS");
  if (!word) return kDefaultChoice;
  std::string known;
  for (const Choice& row : kChoices) {
    if (row.name == *word) return row.choice;
    known += (known.empty() ? "" : " or ") + std::string(row.name);
  }
  return invalid_argument("environment variable TRIREME_KERNELS is '" + *word + "': set it to " + known +
                          ", or unset it");
}

std::string_view to_string(KernelChoice choice) {
  return row_of(choice).name;
}

std::string describe_kernels() {
  return active_kernels().describe();
}

}  // namespace trireme::kernels
