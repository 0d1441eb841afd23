#include "runtime/platform/api/address_choice.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>

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
    text += (text.empty() ? "" : ", ") + entry.interface + " " + entry.address;
  }
  return text;
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
  const std::string host = v6 ? "[" + std::string(address) + "]" : std::string(address);
  return host + ":" + std::to_string(port);
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
    return invalid_argument("TRIREME_INTERFACE=" + std::string(filter) +
                            ": no interface or address matches; this host has: " + list_interfaces(all));
  }
  if (chosen.empty() && one_host) return select_addresses(all, filter, false);  // Loopback is down.
  if (chosen.empty()) return unavailable("no network address; this host has: " + list_interfaces(all));
  std::stable_sort(chosen.begin(), chosen.end(), [](const InterfaceAddress& a, const InterfaceAddress& b) {
    return unlikeliness(a) < unlikeliness(b);
  });
  return chosen;
}

}  // namespace trireme
