// What makes two processes neighbours.
#pragma once

#include <string>

namespace trireme::store {

// Equal for processes that can share memory and descriptors: the same boot of the same
// kernel, and the same network (abstract Unix sockets), IPC and PID namespaces. A
// namespace that /proc does not show counts as the host's.
std::string host_identity();

}  // namespace trireme::store
