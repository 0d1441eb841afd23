// What a caller may pass: checked before anything is sent, so that a refused call leaves
// the communicator as it was (on this rank: the others still wait for it).
// Pure. Errors: invalid_argument naming the call, the argument and what is expected.
#pragma once

#include <trireme/base/status.h>

#include "collectives/execute/operation.h"

namespace trireme {

// `details` may be null.
Status validate_call(const Call& call, const CallDetails* details, const void* input, const void* output, int rank,
                     int ranks);

}  // namespace trireme
