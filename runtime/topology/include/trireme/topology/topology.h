// Topology: what a host or a cluster is made of and how its parts are joined.
//
// One graph, as a plain value, serves discovery, path choice, simulation and placement,
// and one JSON format stores it (docs/formats/topology.md). Vertices form trees (host,
// package, NUMA node, PCIe bridge, core, GPU, network interface, rank; and switches of
// the network, which belong to no host); links are the edges that carry data, each with
// what it is believed to do and where that belief is from. A network too large to list
// is described by classes of links instead (network.h).
// Thread safety: values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <trireme/base/status.h>
#include <trireme/topology/network.h>

namespace trireme {

enum class VertexKind {
  host,
  package,
  numa_node,
  pci_bridge,
  core,
  gpu,
  network_interface,
  rdma_device,
  nvlink_switch,
  network_switch,
  rank,  // A process of the job; os_index is its number.
};
inline constexpr int kVertexKindCount = 11;
// Where a figure comes from; a measured one overrules the others.
enum class FigureSource { unknown, assumed, reported, measured };

struct Vertex {
  int id = 0;       // Its index in Topology::vertices.
  int parent = -1;  // -1 for a host and for a switch of the network.
  VertexKind kind = VertexKind::host;
  std::string name;                // "node3", "core 5", "eth0", "0000:3b:00.0"
  int os_index = -1;               // As the operating system numbers it; -1 when it does not.
  std::uint64_t memory_bytes = 0;  // NUMA nodes and GPUs.
  std::string detail;              // Model, address, driver state: for people.
  bool operator==(const Vertex&) const = default;
};

struct Link {
  int a = 0;
  int b = 0;
  LinkKind kind = LinkKind::internal;
  double bytes_per_second = 0;  // One direction; 0: unknown.
  double latency_us = 0;        // 0: unknown.
  FigureSource source = FigureSource::unknown;
  int lanes = 1;         // Physical links that these figures are the sum of (NVLinks).
  bool one_way = false;  // From a to b only; otherwise both ways, each with these figures.
  std::string detail;    // "shm", "NVLink 4": how; for people.
  bool operator==(const Link&) const = default;
};

struct Topology {
  std::vector<Vertex> vertices;
  std::vector<Link> links;
  std::optional<DescribedNetwork> network;  // Classes of links, when they are not listed.
  bool operator==(const Topology&) const = default;

  // ok, or invalid_argument naming the vertex or link that breaks the rules: ids equal
  // their index, parents come before children, links join existing vertices.
  Status check() const;
  std::vector<int> of_kind(VertexKind kind) const;
};

std::string_view to_string(VertexKind kind);
std::string_view to_string(FigureSource source);

// How two vertices are joined, nearest first; the codes are those operators know from
// `nvidia-smi topo -m`.
enum class Proximity {
  same,         // X
  nvlink,       // NV: joined by NVLink, directly or through a switch
  pci_switch,   // PIX: at most one PCIe switch between them
  pci_bridges,  // PXB: several PCIe bridges, no host bridge
  host_bridge,  // PHB: through a PCIe host bridge (a bridge right below a NUMA node)
  numa_node,    // NODE: between host bridges of one NUMA node
  system,       // SYS: between NUMA nodes or packages
  network,      // NET: on different hosts
};
std::string_view proximity_code(Proximity proximity);
// How many NVLinks a pair has, directly or through NVLink switches; 0: none.
// REQUIRES: both ids are in the topology, as below.
int nvlink_lanes(const Topology& topology, int a, int b);
Proximity proximity(const Topology& topology, int a, int b);

// The JSON format, version 1 (json.cc).
std::string topology_to_json(const Topology& topology);
// Errors: invalid_argument naming the position or the field.
Result<Topology> topology_from_json(std::string_view text);

}  // namespace trireme
