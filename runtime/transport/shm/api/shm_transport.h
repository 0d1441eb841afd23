// The shm transport: ranks of one host move bytes through shared memory.
//
// Each channel is one memfd with two single-producer, single-consumer rings. The lower
// rank makes it and passes its descriptor to the higher rank over an abstract Unix
// socket; nothing has a name in a file system, and nothing is left when all are killed.
// Ranks that are threads of one process share one mapping.
#pragma once

#include "runtime/transport/api/transport.h"

namespace trireme {

Result<std::unique_ptr<Transport>> create_shm_transport(const TransportEnvironment& environment);

}  // namespace trireme
