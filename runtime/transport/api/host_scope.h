// Which processes can meet over loopback and abstract Unix sockets: those of one kernel
// and one network namespace. World's host identity says whose memory can be shared; this
// says whose local sockets can be reached.
#pragma once

#include <string>

namespace trireme {

// Of the calling thread: equal for two exactly if they share boot and network namespace.
std::string network_scope();

}  // namespace trireme
