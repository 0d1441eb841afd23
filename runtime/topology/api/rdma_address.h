// The addresses of RDMA ports, and which of them two ports use to talk: pure functions of
// GID tables, so that fake tables test them.
//
// A RoCE port has one GID per address of its network interface and per RoCE version. Only
// RoCE v2 is routable (it travels in UDP); a link-local GID (fe80::) reaches the same
// switch at most, and what it reaches can differ between the two ends. So both ends look
// at both tables and take the best kind that both have; <trireme/topology/roce_gid.h>
// chooses when only one table is known, and says why when there is nothing to choose.
// Thread safety: free functions and values.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace trireme {

enum class GidType : std::uint8_t { infiniband = 0, roce_v1 = 1, roce_v2 = 2 };

struct RdmaGid {
  std::array<std::uint8_t, 16> bytes{};
  GidType type = GidType::infiniband;
  std::uint32_t index = 0;  // In its port's table.
  bool operator==(const RdmaGid&) const = default;
};

// What kind of address a GID is, best first for reaching another host.
enum class GidScope : std::uint8_t { ipv4 = 0, ipv6_global = 1, ipv6_unique_local = 2, link_local = 3, none = 4 };

GidScope gid_scope(const RdmaGid& gid);

// Positions in the two tables. nullopt: no GID of one type and scope on both sides (a
// link-local pair counts only when nothing else does, RoCE v1 only without v2).
struct GidPair {
  std::size_t a = 0;
  std::size_t b = 0;
  bool operator==(const GidPair&) const = default;
};
// The same pair (mirrored) whichever side asks: RoCE v2 before v1, IPv4 before IPv6 before
// unique local before link-local, then the longest common prefix (the same subnet of
// several), then the lowest indices.
std::optional<GidPair> choose_gids(std::span<const RdmaGid> a, std::span<const RdmaGid> b);

// One direction of a port in bytes per second, from PortInfo's LinkWidthActive and
// LinkSpeedActive as the InfiniBand specification encodes them; 0 when unknown.
double rdma_link_bytes_per_second(unsigned active_width, unsigned active_speed);

// How far two PCI devices are from each other, by their sysfs paths
// ("/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0"): the number of steps up to their
// common bridge and down again. nullopt: different host bridges, or no PCI device.
std::optional<int> pci_steps(const std::string& a, const std::string& b);

}  // namespace trireme
