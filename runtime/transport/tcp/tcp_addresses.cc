#include "runtime/transport/tcp/tcp_addresses.h"

#include <arpa/inet.h>
#include <net/if.h>
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
  const std::string terminated = without_scope(text);
  if (inet_pton(AF_INET, terminated.c_str(), bytes.value.data()) == 1)
    bytes.bits = 32;
  else if (inet_pton(AF_INET6, terminated.c_str(), bytes.value.data()) == 1)
    bytes.bits = 128;
  return bytes;
}

int unlikeliness(const InterfaceAddress& entry) {
  if (entry.loopback) return 3;
  if (is_link_local(entry.address)) return 2;
  return is_virtual_bridge(entry.interface) ? 1 : 0;
}

// What a filter says of an entry.
struct Verdict {
  bool wants_some = false;  // It names something, and not only exclusions.
  bool named = false;
  bool excluded = false;
};

Verdict judge(const InterfaceAddress& entry, std::string_view filter) {
  Verdict verdict;
  while (!filter.empty()) {
    const std::size_t comma = std::min(filter.find(','), filter.size());
    std::string_view item = filter.substr(0, comma);
    filter.remove_prefix(std::min(comma + 1, filter.size()));
    const bool excludes = item.starts_with('!');
    if (excludes) item.remove_prefix(1);
    if (item.empty()) continue;
    const bool matches = item == entry.interface || cidr_contains(item, entry.address);
    verdict.wants_some |= !excludes;
    (excludes ? verdict.excluded : verdict.named) |= matches;
  }
  return verdict;
}

bool is_chosen(const InterfaceAddress& entry, std::string_view filter, bool one_host) {
  const Verdict verdict = judge(entry, filter);
  if (verdict.excluded) return false;
  return verdict.wants_some ? verdict.named : entry.loopback || !one_host;
}

std::string list_interfaces(const std::vector<InterfaceAddress>& all) {
  std::string text;
  for (const InterfaceAddress& entry : all) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", entry.interface, entry.address);
  }
  return text;
}

// The scope id of "%eth0" or "%3"; 0 when the text has none or no such interface is here.
std::uint32_t scope_of(std::string_view host) {
  const std::size_t percent = host.find('%');
  if (percent == std::string_view::npos) return 0;
  const std::string name(host.substr(percent + 1));
  if (const unsigned index = if_nametoindex(name.c_str()); index != 0) return index;
  std::uint32_t number = 0;
  const auto parsed = std::from_chars(name.data(), name.data() + name.size(), number);
  return parsed.ptr == name.data() + name.size() ? number : 0;
}

}  // namespace

bool is_link_local(std::string_view address) {
  return cidr_contains("fe80::/10", address) || cidr_contains("169.254.0.0/16", address);
}

bool is_virtual_bridge(std::string_view interface) {
  for (const std::string_view prefix : {"docker", "br-", "virbr", "cni", "lxc", "podman", "flannel", "kube"}) {
    if (interface.starts_with(prefix)) return true;
  }
  return false;
}

std::string without_scope(std::string_view address) {
  return std::string(address.substr(0, address.find('%')));
}

std::string with_port(std::string_view address, int port) {
  const bool v6 = address.find(':') != std::string_view::npos;
  return v6 ? fmt::format("[{}]:{}", address, port) : fmt::format("{}:{}", address, port);
}

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
    if (is_chosen(entry, filter, one_host)) chosen.push_back(entry);
  }
  if (chosen.empty() && !filter.empty()) {
    return invalid_argument(fmt::format("TRIREME_INTERFACE={}: no interface or address matches; this host has: {}",
                                        filter, list_interfaces(all)));
  }
  if (chosen.empty() && one_host) return select_addresses(all, filter, false);  // Loopback is down.
  if (chosen.empty()) return unavailable("no network address; this host has: " + list_interfaces(all));
  std::stable_sort(chosen.begin(), chosen.end(), [](const InterfaceAddress& a, const InterfaceAddress& b) {
    return unlikeliness(a) < unlikeliness(b);
  });
  return chosen;
}

Result<NumericAddress> numeric_address(const std::string& text) {
  const SocketAddress address{text};
  const std::string host = address.host();
  const Bytes bytes = parse_address(host);
  NumericAddress result;
  const auto port = htons(static_cast<std::uint16_t>(address.port()));
  if (bytes.bits == 32 && host.find('%') == std::string::npos) {
    auto* v4 = reinterpret_cast<sockaddr_in*>(&result.storage);
    v4->sin_family = AF_INET;
    v4->sin_port = port;
    std::memcpy(&v4->sin_addr, bytes.value.data(), 4);
    result.length = sizeof(sockaddr_in);
  } else if (bytes.bits == 128) {
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&result.storage);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = port;
    v6->sin6_scope_id = scope_of(host);
    std::memcpy(&v6->sin6_addr, bytes.value.data(), 16);
    result.length = sizeof(sockaddr_in6);
  } else {
    return invalid_argument("tcp transport: \"" + text + "\" is not a numeric address with a port");
  }
  return result;
}

std::string host_text(const sockaddr_storage& storage) {
  char text[INET6_ADDRSTRLEN] = {};
  if (storage.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(storage).sin_addr, text, sizeof text);
    return text;
  }
  if (storage.ss_family != AF_INET6) return {};
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(storage);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    inet_ntop(AF_INET, v6.sin6_addr.s6_addr + 12, text, sizeof text);
    return text;
  }
  inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
  char name[IF_NAMESIZE] = {};
  if (v6.sin6_scope_id == 0 || if_indextoname(v6.sin6_scope_id, name) == nullptr) return text;
  return std::string(text) + "%" + name;
}

std::string local_host(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return {};
  return host_text(storage);
}

}  // namespace trireme
