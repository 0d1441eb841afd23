// The local engine: a shim on this host, as a child of the caller.
// Thread safety: a free function.
#pragma once

#include <trireme/base/status.h>

#include "launcher/coordinator/shim_connection.h"

namespace trireme {

// Starts this very program as "trireme shim FD". The caller becomes the reaper of what
// a shim that dies before its ranks leaves behind; clean_up kills that.
// Errors: those of ChildProcess::spawn.
Result<ShimConnection> start_local_shim();

}  // namespace trireme
