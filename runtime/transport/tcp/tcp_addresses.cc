#include "runtime/transport/tcp/tcp_addresses.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include <fmt/core.h>

namespace trireme {
namespace {

struct Bytes {
  std::array<unsigned char, 16> value{};
  unsigned bits = 0;  // 32, 128, or 0 for what is no address.
};

Bytes parse_address(std::string_view text) {
  Bytes bytes;
  const std::string terminated(text);
  if (inet_pton(AF_INET, terminated.c_str(), bytes.value.data()) == 1)
    bytes.bits = 32;
  else if (inet_pton(AF_INET6, terminated.c_str(), bytes.value.data()) == 1)
    bytes.bits = 128;
  return bytes;
}

bool is_link_local(std::string_view address) {
  return cidr_contains("fe80::/10", address.substr(0, address.find('%'))) || cidr_contains("169.254.0.0/16", address);
}

bool is_virtual_bridge(std::string_view interface) {
  for (const std::string_view prefix : {"docker", "br-", "virbr", "veth", "cni", "lxc", "podman"}) {
    if (interface.starts_with(prefix)) return true;
  }
  return false;
}

int unlikeliness(const InterfaceAddress& entry) {
  return entry.loopback ? 2 : is_virtual_bridge(entry.interface) ? 1 : 0;
}

bool matches(const InterfaceAddress& entry, std::string_view filter) {
  while (!filter.empty()) {
    const std::size_t comma = std::min(filter.find(','), filter.size());
    const std::string_view item = filter.substr(0, comma);
    if (item == entry.interface || cidr_contains(item, entry.address)) return true;
    filter.remove_prefix(std::min(comma + 1, filter.size()));
  }
  return false;
}

std::string list_interfaces(const std::vector<InterfaceAddress>& all) {
  std::string text;
  for (const InterfaceAddress& entry : all) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", entry.interface, entry.address);
  }
  return text;
}

}  // namespace

bool cidr_contains(std::string_view cidr, std::string_view address) {
  const std::size_t slash = std::min(cidr.find('/'), cidr.size());
  const Bytes network = parse_address(cidr.substr(0, slash));
  const Bytes candidate = parse_address(address);
  if (network.bits == 0 || network.bits != candidate.bits) return false;
  unsigned prefix = network.bits;
  if (slash < cidr.size()) {
    const char* end = cidr.data() + cidr.size();
    const auto parsed = std::from_chars(cidr.data() + slash + 1, end, prefix);
    if (parsed.ec != std::errc() || parsed.ptr != end || prefix > network.bits) return false;
  }
  for (unsigned bit = 0; bit < prefix; ++bit) {
    const unsigned mask = 0x80u >> (bit % 8);
    if ((network.value[bit / 8] & mask) != (candidate.value[bit / 8] & mask)) return false;
  }
  return true;
}

Result<std::vector<InterfaceAddress>> select_addresses(const std::vector<InterfaceAddress>& all,
                                                       std::string_view filter, bool one_host) {
  std::vector<InterfaceAddress> chosen;
  for (const InterfaceAddress& entry : all) {
    if (is_link_local(entry.address)) continue;
    if (filter.empty() ? (entry.loopback || !one_host) : matches(entry, filter)) chosen.push_back(entry);
  }
  if (chosen.empty() && !filter.empty()) {
    return invalid_argument(fmt::format("TRIREME_INTERFACE={}: no interface or address matches; this host has: {}",
                                        filter, list_interfaces(all)));
  }
  if (chosen.empty()) return unavailable("no usable network address; this host has: " + list_interfaces(all));
  std::stable_sort(chosen.begin(), chosen.end(), [](const InterfaceAddress& a, const InterfaceAddress& b) {
    return unlikeliness(a) < unlikeliness(b);
  });
  return chosen;
}

Result<NumericAddress> numeric_address(const std::string& text) {
  TRIREME_ASSIGN_OR_RETURN(const SocketAddress address, SocketAddress::parse(text));
  const Bytes bytes = parse_address(address.host());
  NumericAddress result;
  const auto port = htons(static_cast<std::uint16_t>(address.port()));
  if (bytes.bits == 32) {
    auto* v4 = reinterpret_cast<sockaddr_in*>(&result.storage);
    v4->sin_family = AF_INET;
    v4->sin_port = port;
    std::memcpy(&v4->sin_addr, bytes.value.data(), 4);
    result.length = sizeof(sockaddr_in);
  } else if (bytes.bits == 128) {
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&result.storage);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = port;
    std::memcpy(&v6->sin6_addr, bytes.value.data(), 16);
    result.length = sizeof(sockaddr_in6);
  } else {
    return invalid_argument("tcp transport: \"" + text + "\" is not a numeric address with a port");
  }
  return result;
}

}  // namespace trireme
