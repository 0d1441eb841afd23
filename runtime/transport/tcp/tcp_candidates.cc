#include "runtime/transport/tcp/tcp_candidates.h"

#include <algorithm>

#include "runtime/transport/tcp/tcp_addresses.h"

namespace trireme {
namespace {

enum Kind { v4, v6, link_local_v6 };

Kind kind_of(const std::string& host) {
  if (host.find(':') == std::string::npos) return v4;
  return is_link_local(host) ? link_local_v6 : v6;
}

int grade_of(const TcpEndpoint::Address& address, const std::string& host) {
  if (address.loopback) return 0;
  if (is_link_local(host)) return 3;
  return is_virtual_bridge(address.interface) ? 2 : 1;
}

bool is_local(const std::string& host, const std::vector<InterfaceAddress>& local) {
  return std::any_of(local.begin(), local.end(),
                     [&](const InterfaceAddress& entry) { return without_scope(entry.address) == host; });
}

// The interfaces from which link-local addresses can be reached.
std::vector<std::string> link_local_interfaces(const std::vector<InterfaceAddress>& local) {
  std::vector<std::string> names;
  for (const InterfaceAddress& entry : local) {
    if (kind_of(entry.address) != link_local_v6) continue;
    if (std::find(names.begin(), names.end(), entry.interface) == names.end()) names.push_back(entry.interface);
  }
  return names;
}

void add_link_local(const TcpEndpoint& peer, const std::vector<InterfaceAddress>& local,
                    std::vector<TcpCandidate>& candidates) {
  for (const TcpEndpoint::Address& address : peer.addresses) {
    const SocketAddress text{address.text};
    const std::string host = text.host();
    if (kind_of(host) != link_local_v6 || is_local(host, local)) continue;
    for (const std::string& interface : link_local_interfaces(local)) {
      candidates.push_back({with_port(host + "%" + interface, text.port()), address.interface, address.speed_mbit,
                            grade_of(address, host)});
    }
  }
}

}  // namespace

std::vector<TcpCandidate> tcp_candidates(const TcpEndpoint& peer, const std::string& scope,
                                         const std::vector<InterfaceAddress>& local,
                                         std::vector<std::string>& excluded) {
  const bool same_scope = scope == peer.network_scope;
  std::vector<TcpCandidate> candidates;
  for (const TcpEndpoint::Address& address : peer.addresses) {
    const std::string host = SocketAddress{address.text}.host();
    if (kind_of(host) == link_local_v6 || (address.loopback && !same_scope)) continue;
    if (!same_scope && is_local(host, local)) {
      excluded.push_back(address.text + " (" + address.interface + "): this host has that address too");
      continue;
    }
    candidates.push_back({address.text, address.interface, address.speed_mbit, grade_of(address, host)});
  }
  if (candidates.empty()) add_link_local(peer, local, candidates);
  std::stable_sort(candidates.begin(), candidates.end(), is_preferred);
  return candidates;
}

bool is_preferred(const TcpCandidate& a, const TcpCandidate& b) {
  return a.grade != b.grade ? a.grade < b.grade : a.speed_mbit > b.speed_mbit;
}

bool may_meet(const TcpEndpoint& a, const TcpEndpoint& b) {
  const bool same_scope = a.network_scope == b.network_scope;
  for (const TcpEndpoint::Address& one : a.addresses) {
    for (const TcpEndpoint::Address& other : b.addresses) {
      if (one.loopback != other.loopback || (one.loopback && !same_scope)) continue;
      if (kind_of(SocketAddress{one.text}.host()) == kind_of(SocketAddress{other.text}.host())) return true;
    }
  }
  return false;
}

std::string machine_of(const std::string& scope) {
  return scope.substr(0, scope.find('/'));
}

}  // namespace trireme
