// The vector code for any x86-64.
#include "kernels/cpu/simd/kernels.h"

namespace trireme::kernels {

const SimdSet& simd_baseline() {
  static constexpr SimdSet set = make_simd_set("baseline");
  return set;
}

}  // namespace trireme::kernels
