// The one table of transports. Fabrics choose from it, contract tests and benchmarks
// iterate it: a new transport is a folder beside shm/ and tcp/, a line in
// transport_table.cc and a row in docs/transports.md.
#pragma once

#include <span>

#include "runtime/transport/api/transport.h"

namespace trireme {

// In order of preference at equal figures. Lives as long as the program.
std::span<const TransportFactory> transport_table();

}  // namespace trireme
