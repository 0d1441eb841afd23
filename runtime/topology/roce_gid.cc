#include <trireme/topology/roce_gid.h>

#include <algorithm>

#include <fmt/core.h>

namespace trireme {
namespace {

using Gid = std::array<std::uint8_t, 16>;

bool is_empty(const Gid& gid) {
  return std::all_of(gid.begin(), gid.end(), [](std::uint8_t byte) { return byte == 0; });
}
bool is_link_local(const Gid& gid) {
  return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}
bool is_unique_local(const Gid& gid) {
  return (gid[0] & 0xfe) == 0xfc;
}
bool is_ipv4_mapped(const Gid& gid) {
  return std::all_of(gid.begin(), gid.begin() + 10, [](std::uint8_t byte) { return byte == 0; }) && gid[10] == 0xff &&
         gid[11] == 0xff;
}
bool is_ipv4_link_local(const Gid& gid) {
  return is_ipv4_mapped(gid) && gid[12] == 169 && gid[13] == 254;
}

// Lower is better; -1: of no use.
int preference(const GidEntry& entry) {
  if (is_empty(entry.gid)) return -1;
  if (entry.type == GidEntry::Type::infiniband) return 3;
  if (entry.type == GidEntry::Type::roce_v1) return -1;
  if (is_link_local(entry.gid) || is_ipv4_link_local(entry.gid)) return -1;
  if (is_ipv4_mapped(entry.gid)) return 0;
  return is_unique_local(entry.gid) ? 2 : 1;
}

std::string_view why_not(const GidEntry& entry) {
  if (is_empty(entry.gid)) return "empty";
  if (entry.type == GidEntry::Type::roce_v1) return "RoCE v1, which is not routed";
  return "link-local, which no router passes on";
}

std::string list_of(std::span<const GidEntry> table) {
  std::string text;
  for (const GidEntry& entry : table) {
    text += fmt::format("{}index {} ({}): {}", text.empty() ? "" : "; ", entry.index, gid_to_string(entry.gid),
                        preference(entry) < 0 ? why_not(entry) : "usable");
  }
  return text.empty() ? "the table is empty" : text;
}

// Bytes that two addresses of one subnet have in common, as far as we can guess.
std::size_t subnet_bytes(const Gid& gid) {
  return is_ipv4_mapped(gid) ? 15 : 8;
}

}  // namespace

std::string gid_to_string(const Gid& gid) {
  if (is_ipv4_mapped(gid)) return fmt::format("{}.{}.{}.{}", gid[12], gid[13], gid[14], gid[15]);
  std::string text;
  for (std::size_t group = 0; group < 8; ++group) {
    text += fmt::format("{}{:x}", group == 0 ? "" : ":", gid[2 * group] << 8 | gid[2 * group + 1]);
  }
  return text;
}

Result<Gid> parse_gid(const std::string& text) {
  const auto refuse = [&] {
    return invalid_argument("'" + text + "' is no GID: expected eight groups of four hexadecimal digits");
  };
  if (text.size() != 39) return refuse();
  Gid gid{};
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (at % 5 == 4) {
      if (text[at] != ':') return refuse();
      continue;
    }
    const char c = text[at];
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return refuse();
    std::uint8_t& byte = gid[2 * (at / 5) + at % 5 / 2];
    byte = static_cast<std::uint8_t>(byte << 4 | digit);
  }
  return gid;
}

Result<GidEntry> choose_gid(std::span<const GidEntry> table) {
  const GidEntry* best = nullptr;
  for (const GidEntry& entry : table) {
    const int rank = preference(entry);
    if (rank >= 0 && (best == nullptr || rank < preference(*best))) best = &entry;
  }
  if (best != nullptr) return *best;
  return unavailable("no usable GID: " + list_of(table) +
                     ". Give the port's network interface an IPv4 or a routable IPv6 address");
}

Result<GidEntry> choose_gid_towards(std::span<const GidEntry> table, const GidEntry& peer) {
  const GidEntry* best = nullptr;
  for (const GidEntry& entry : table) {
    if (preference(entry) < 0 || entry.type != peer.type) continue;
    if (is_ipv4_mapped(entry.gid) != is_ipv4_mapped(peer.gid)) continue;
    const auto bytes = static_cast<std::ptrdiff_t>(subnet_bytes(entry.gid));
    const bool near = std::equal(entry.gid.begin(), entry.gid.begin() + bytes, peer.gid.begin());
    if (near) return entry;
    if (best == nullptr) best = &entry;
  }
  if (best != nullptr) return *best;
  return unavailable("no GID of the kind the peer has (" + gid_to_string(peer.gid) + "): " + list_of(table));
}

}  // namespace trireme
