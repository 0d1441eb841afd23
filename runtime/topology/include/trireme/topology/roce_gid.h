// Which GID of a RoCE port to use.
//
// A port's GID table holds link-local, IPv6 and IPv4-mapped entries, each for RoCE v1 and
// v2. Only v2 is routed; fe80:: entries work on one segment only, and a peer on another
// subnet never answers them (a silent hang elsewhere). Pure functions on the table.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include <trireme/base/status.h>

namespace trireme {

struct GidEntry {
  enum class Type { infiniband, roce_v1, roce_v2 };
  int index = 0;
  std::array<std::uint8_t, 16> gid{};
  Type type = Type::roce_v2;
  std::string interface;  // "eth2"; "" when unknown.
};

// "10.0.0.7" for an IPv4-mapped GID, otherwise as IPv6: "fe80:0:0:0:..." in eight groups.
std::string gid_to_string(const std::array<std::uint8_t, 16>& gid);
// The form sysfs prints: eight groups of four hexadecimal digits.
Result<std::array<std::uint8_t, 16>> parse_gid(const std::string& text);

// The entry to use: RoCE v2 with an IPv4-mapped address, else with a routable IPv6
// address (global before unique-local), else InfiniBand's own; lowest index first.
// Errors: unavailable listing every entry and why it is no use (empty, fe80, v1).
Result<GidEntry> choose_gid(std::span<const GidEntry> table);
// What two ends use so that they agree: the local entry of the peer's kind (family and
// type), preferring one in the same /24 (IPv4) or /64 (IPv6). Errors: unavailable.
Result<GidEntry> choose_gid_towards(std::span<const GidEntry> table, const GidEntry& peer);

}  // namespace trireme
