// Reference reductions: one element at a time through base/float_types.h.
#pragma once

#include "kernels/cpu/simd/reduce_table.h"

namespace trireme::kernels::reference {

const ReduceTable& reduce_table();

}  // namespace trireme::kernels::reference
