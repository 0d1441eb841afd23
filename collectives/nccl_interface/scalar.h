// The value of one element, as a factor of a scaled sum.
// Thread safety: a free function.
#pragma once

#include <trireme/base/data_type.h>

#include "collectives/nccl_interface/outcome.h"

namespace trireme::nccl {

// Errors: invalid_argument for a 64-bit integer beyond 2^53, which no factor holds.
Outcome scalar_value(const void* element, DataType type, double& value);

}  // namespace trireme::nccl
