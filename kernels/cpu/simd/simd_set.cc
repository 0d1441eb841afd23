#include "kernels/cpu/simd/simd_set.h"

namespace trireme::kernels {

const SimdSet& simd() {
  static const SimdSet& best =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? simd_avx2() : simd_baseline();
  return best;
}

}  // namespace trireme::kernels
