// Addresses as the kernel knows them, and which of this host's addresses ranks offer to
// their peers: pure functions of the interfaces found and of TRIREME_INTERFACE.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <sys/socket.h>

#include <trireme/base/status.h>

#include "runtime/platform/api/sockets.h"

namespace trireme {

// The addresses to be reached at, likely ones first. Without a filter: loopback alone when
// every rank is on this host, otherwise all addresses; bridges of containers and virtual
// machines after the others, then link-local ones, loopback last (it serves the peers of
// this host). A filter (interface names, addresses, CIDRs; commas between) leaves what it
// names; what follows a '!' is left out ("!docker0", "10.0.0.0/8,!10.1.0.0/16").
// Errors: invalid_argument showing the filter and the interfaces there are.
Result<std::vector<InterfaceAddress>> select_addresses(const std::vector<InterfaceAddress>& all,
                                                       std::string_view filter, bool one_host);

// Does `cidr` ("10.0.0.0/8", "fd00::/8", or a plain address) contain `address`? A scope
// id of the address does not matter.
bool cidr_contains(std::string_view cidr, std::string_view address);
bool is_link_local(std::string_view address);
// Bridges that containers and virtual machines of one host share, by name.
bool is_virtual_bridge(std::string_view interface);

// "fe80::1" of "fe80::1%eth0".
std::string without_scope(std::string_view address);
// "10.0.0.2" and "[fd00::2]" followed by ":port".
std::string with_port(std::string_view address, int port);

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
