// Which of a peer's addresses to try, and which of those that answer to take: pure
// functions of what both ends advertise, so that they can be tested without a network.
// Thread safety: pure functions and values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/platform/api/sockets.h"
#include "runtime/transport/tcp/tcp_wire.h"

namespace trireme {

struct TcpCandidate {
  std::string address;    // "10.0.0.2:4711", "[fe80::2%eth0]:4711"
  std::string interface;  // At the peer.
  std::uint32_t speed_mbit = 0;
  int grade = 0;  // Smaller is better: loopback, network, bridge of containers, link-local.
  bool operator==(const TcpCandidate&) const = default;
};

// The addresses of `peer` worth trying from a process that has the addresses `local` in
// the network `scope`, best first. Loopback only within one scope, and then first.
// Addresses that this host has too are no way to another one: they are appended to
// `excluded`, with the reason. Link-local addresses are tried, from every interface that
// has one itself, if nothing else is left.
std::vector<TcpCandidate> tcp_candidates(const TcpEndpoint& peer, const std::string& scope,
                                         const std::vector<InterfaceAddress>& local,
                                         std::vector<std::string>& excluded);

// Is `a` preferred to `b` if both answer? The better grade, then the faster interface.
bool is_preferred(const TcpCandidate& a, const TcpCandidate& b);

// Do the two have addresses of one kind (loopback of one scope, IPv4, IPv6, link-local)?
// The same answer at both ends.
bool may_meet(const TcpEndpoint& a, const TcpEndpoint& b);

// The part of a scope that names the machine: equal for namespaces of one kernel.
std::string machine_of(const std::string& scope);

}  // namespace trireme
