// Which of this host's addresses are offered to other hosts: pure functions of the
// interfaces found and of TRIREME_INTERFACE.
// Thread safety: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

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

}  // namespace trireme
