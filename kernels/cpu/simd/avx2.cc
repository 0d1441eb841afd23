// The vector code for machines with AVX2 and FMA; compiled with their flags, so only
// simd() may lead here.
#include "kernels/cpu/simd/kernels.h"

namespace trireme::kernels {

const SimdSet& simd_avx2() {
  static constexpr SimdSet set = make_simd_set("avx2");
  return set;
}

}  // namespace trireme::kernels
