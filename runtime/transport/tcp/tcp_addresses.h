// Which of this host's addresses ranks listen on, and which of a peer's to try: pure
// functions of the interfaces found and of TRIREME_INTERFACE.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <sys/socket.h>

#include <trireme/base/status.h>

#include "runtime/platform/api/sockets.h"

namespace trireme {

// The addresses to listen on, best first. Without a filter: loopback alone when every
// rank is on this host, otherwise all addresses but link-local ones, loopback last (it
// serves the peers of this host), bridges of containers and virtual machines before it.
// With a filter (interface names, addresses, CIDRs; commas between): exactly what it
// names. Errors: invalid_argument showing the filter and the interfaces there are.
Result<std::vector<InterfaceAddress>> select_addresses(const std::vector<InterfaceAddress>& all,
                                                       std::string_view filter, bool one_host);

// Does `cidr` ("10.0.0.0/8", "fd00::/8", or a plain address) contain `address`?
bool cidr_contains(std::string_view cidr, std::string_view address);

// "10.0.0.2:4711" or "[fd00::2]:4711" for the kernel.
struct NumericAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
};
Result<NumericAddress> numeric_address(const std::string& text);

}  // namespace trireme
