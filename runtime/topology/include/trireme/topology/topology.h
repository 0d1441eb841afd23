// Topology: what a host or a cluster is made of and how its parts are joined.
//
// One graph, as a plain value, serves discovery, path choice, simulation and placement,
// and one JSON format stores it (docs/formats/topology.md). Vertices form a tree (host,
// package, NUMA node, PCIe bridge, core, GPU, network interface); links are the edges
// that carry data, each with what it is believed to do and where that belief is from.
// Thread safety: values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <trireme/base/status.h>

namespace trireme {

enum class VertexKind { host, package, numa_node, pci_bridge, core, gpu, network_interface, rdma_device };
enum class LinkKind { internal, memory, pci_express, nvlink, network };
// Where a figure comes from; a measured one overrules the others.
enum class FigureSource { unknown, assumed, reported, measured };

struct Vertex {
  int id = 0;       // Its index in Topology::vertices.
  int parent = -1;  // -1 for a host.
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
  bool operator==(const Link&) const = default;
};

struct Topology {
  std::vector<Vertex> vertices;
  std::vector<Link> links;
  bool operator==(const Topology&) const = default;

  // ok, or invalid_argument naming the vertex or link that breaks the rules: ids equal
  // their index, parents come before children, links join existing vertices.
  Status check() const;
  std::vector<int> of_kind(VertexKind kind) const;
};

std::string_view to_string(VertexKind kind);
std::string_view to_string(LinkKind kind);
std::string_view to_string(FigureSource source);

// This host, from hwloc (packages, NUMA nodes, cores, PCI), sysfs (network interfaces
// and their speeds) and libibverbs (RDMA devices, in builds with VERBS).
// Errors: unavailable when hwloc cannot read the machine.
Result<Topology> discover_host();

// How two vertices are joined, nearest first; the codes are those operators know from
// `nvidia-smi topo -m`.
enum class Proximity {
  same,         // X
  nvlink,       // NV: joined by NVLink directly
  pci_switch,   // PIX: at most one PCIe bridge between them
  pci_bridges,  // PXB: several PCIe bridges, no host bridge
  host_bridge,  // PHB: through a PCIe host bridge
  numa_node,    // NODE: within one NUMA node
  system,       // SYS: between NUMA nodes or packages
  network,      // NET: on different hosts
};
std::string_view proximity_code(Proximity proximity);
// REQUIRES: both ids are in the topology.
Proximity proximity(const Topology& topology, int a, int b);

// The matrix of GPUs, network interfaces and RDMA devices (NUMA nodes when there are
// none of these but one), with a legend; for people.
std::string format_matrix(const Topology& topology);
// The tree, one line a vertex, indented; for people.
std::string format_tree(const Topology& topology);

// The JSON format, version 1.
std::string topology_to_json(const Topology& topology);
// Errors: invalid_argument naming the position or the field.
Result<Topology> topology_from_json(std::string_view text);

}  // namespace trireme
