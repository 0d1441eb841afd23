// The tcp transport: one socket per pair of ranks and context, so that a slow reader of
// one context holds up no other.
//
// Data moves on the caller's thread, straight between the user's memory and the socket
// when it can; the fabric's service thread connects, accepts, flushes what is buffered
// and rings the doorbell when a socket is ready again. TRIREME_INTERFACE restricts the
// addresses used: interface names, addresses or CIDRs, separated by commas.
#pragma once

#include "runtime/transport/api/transport.h"

namespace trireme {

Result<std::unique_ptr<Transport>> create_tcp_transport(const TransportEnvironment& environment);

}  // namespace trireme
