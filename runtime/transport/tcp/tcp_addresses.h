// Addresses as text and as the kernel knows them.
// Thread safety: all functions.
#pragma once

#include <string>

#include <sys/socket.h>

#include <trireme/base/status.h>

#include "runtime/platform/api/address_choice.h"

namespace trireme {

// "10.0.0.2:4711", "[fd00::2]:4711" or "[fe80::2%eth0]:4711" for the kernel. Never
// resolves names. Errors: invalid_argument.
struct NumericAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
};
Result<NumericAddress> numeric_address(const std::string& text);
// Back again, without the port: "10.0.0.2", also when it came through an IPv6 socket.
std::string host_text(const sockaddr_storage& storage);
// The local or remote end of a connected socket, as host_text; "" when there is none.
std::string local_host(int fd);

}  // namespace trireme
