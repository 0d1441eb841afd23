// The verbs transport over a given library: the system's, or a test's device.
#pragma once

#include "runtime/transport/api/transport.h"
#include "runtime/transport/verbs/verbs_library.h"

namespace trireme {

// As create_verbs_transport. REQUIRES: `verbs` outlives the transport.
Result<std::unique_ptr<Transport>> create_verbs_transport_on(const VerbsLibrary& verbs,
                                                             const TransportEnvironment& environment);

}  // namespace trireme
