// Conversions between SocketAddress and the kernel's form.
#pragma once

#include <sys/socket.h>

#include <string>

#include <trireme/base/status.h>

#include "runtime/platform/api/sockets.h"

namespace trireme {

struct KernelAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
};

// Errors: invalid_argument for a text that is no address; not_found for an unknown name.
Result<KernelAddress> to_kernel_address(const SocketAddress& address);
// "unix:" for an unnamed Unix socket.
SocketAddress from_kernel_address(const KernelAddress& address);
// Sets TCP_NODELAY; no effect on Unix-domain sockets.
void disable_nagle(int fd, int family);
// A connection from an ephemeral port to itself, which Linux makes when nobody listens
// on a port of the ephemeral range.
bool is_self_connected(int fd);

}  // namespace trireme
