#include <trireme/topology/topology.h>

#include <trireme/base/check.h>

#include <algorithm>
#include <array>

namespace trireme {
namespace {

constexpr std::array<std::string_view, kVertexKindCount> kVertexKinds = {
    "host",        "package",       "numa_node",      "pci_bridge", "core", "gpu", "network_interface",
    "rdma_device", "nvlink_switch", "network_switch", "rank"};
constexpr std::array<std::string_view, 4> kSources = {"unknown", "assumed", "reported", "measured"};
constexpr std::array<std::string_view, 8> kProximityCodes = {"X", "NV", "PIX", "PXB", "PHB", "NODE", "SYS", "NET"};

// The vertices from `id` up to its host, `id` first.
std::vector<int> ancestry(const Topology& topology, int id) {
  std::vector<int> chain;
  for (int at = id; at >= 0; at = topology.vertices[static_cast<std::size_t>(at)].parent) chain.push_back(at);
  return chain;
}

int count_bridges(const Topology& topology, const std::vector<int>& chain, int common) {
  int bridges = 0;
  for (int id : chain) {
    if (id == common) break;
    if (topology.vertices[static_cast<std::size_t>(id)].kind == VertexKind::pci_bridge) ++bridges;
  }
  return bridges;
}

}  // namespace

std::string_view to_string(VertexKind kind) {
  return kVertexKinds[static_cast<std::size_t>(kind)];
}
std::string_view to_string(FigureSource source) {
  return kSources[static_cast<std::size_t>(source)];
}
std::string_view proximity_code(Proximity proximity) {
  return kProximityCodes[static_cast<std::size_t>(proximity)];
}

Status Topology::check() const {
  const int count = static_cast<int>(vertices.size());
  for (int index = 0; index < count; ++index) {
    const Vertex& vertex = vertices[static_cast<std::size_t>(index)];
    const std::string where = "topology vertex " + std::to_string(index) + " ('" + vertex.name + "')";
    if (vertex.id != index)
      return invalid_argument(where + " has id " + std::to_string(vertex.id) + "; expected its index");
    if (vertex.parent < -1 || vertex.parent >= index) {
      return invalid_argument(where + " has parent " + std::to_string(vertex.parent) +
                              "; expected an earlier vertex or -1");
    }
    const bool is_root = vertex.kind == VertexKind::host || vertex.kind == VertexKind::network_switch;
    if ((vertex.parent == -1) != is_root) {
      return invalid_argument(where + ": exactly the hosts and the network's switches have no parent");
    }
  }
  for (std::size_t index = 0; index < links.size(); ++index) {
    const Link& link = links[index];
    if (link.a < 0 || link.a >= count || link.b < 0 || link.b >= count || link.a == link.b) {
      return invalid_argument("topology link " + std::to_string(index) + " joins " + std::to_string(link.a) + " and " +
                              std::to_string(link.b) + "; expected two different vertices of 0.." +
                              std::to_string(count - 1));
    }
    if (!(link.bytes_per_second >= 0) || !(link.latency_us >= 0) || link.lanes < 1) {
      return invalid_argument("topology link " + std::to_string(index) + " has a negative figure, or no lanes");
    }
  }
  return network ? network->check() : Status::ok();
}

std::vector<int> Topology::of_kind(VertexKind kind) const {
  std::vector<int> ids;
  for (const Vertex& vertex : vertices) {
    if (vertex.kind == kind) ids.push_back(vertex.id);
  }
  return ids;
}

int nvlink_lanes(const Topology& topology, int a, int b) {
  int direct = 0;
  int switched = 0;
  for (const Link& link : topology.links) {
    if (link.kind != LinkKind::nvlink || (link.a != a && link.b != a)) continue;
    const int other = link.a == a ? link.b : link.a;
    if (other == b) direct += link.lanes;
    if (topology.vertices[static_cast<std::size_t>(other)].kind != VertexKind::nvlink_switch) continue;
    for (const Link& far : topology.links) {
      const bool joins = (far.a == other && far.b == b) || (far.a == b && far.b == other);
      if (far.kind == LinkKind::nvlink && joins) switched += std::min(link.lanes, far.lanes);
    }
  }
  return direct + switched;
}

Proximity proximity(const Topology& topology, int a, int b) {
  const int count = static_cast<int>(topology.vertices.size());
  TRIREME_CHECK(a >= 0 && a < count && b >= 0 && b < count, "vertex id out of range");
  if (a == b) return Proximity::same;
  if (nvlink_lanes(topology, a, b) > 0) return Proximity::nvlink;
  const std::vector<int> chain_a = ancestry(topology, a);
  const std::vector<int> chain_b = ancestry(topology, b);
  if (chain_a.back() != chain_b.back()) return Proximity::network;
  // The lowest common ancestor is where the two chains, read from the host, last agree.
  int common = chain_a.back();
  for (std::size_t up = 0; up < chain_a.size() && up < chain_b.size(); ++up) {
    const int candidate = chain_a[chain_a.size() - 1 - up];
    if (candidate != chain_b[chain_b.size() - 1 - up]) break;
    common = candidate;
  }
  const Vertex& meeting = topology.vertices[static_cast<std::size_t>(common)];
  if (meeting.kind == VertexKind::numa_node || meeting.kind == VertexKind::core) return Proximity::numa_node;
  if (meeting.kind != VertexKind::pci_bridge) {
    // A device that hangs below another (a port, a rank on its GPU) is at it.
    return meeting.id == a || meeting.id == b ? Proximity::pci_switch : Proximity::system;
  }
  const bool is_host_bridge =
      meeting.parent < 0 || topology.vertices[static_cast<std::size_t>(meeting.parent)].kind != VertexKind::pci_bridge;
  if (is_host_bridge) return Proximity::host_bridge;
  // A switch is a bridge upstream and one downstream per port: one on each side is a single switch.
  const int deepest = std::max(count_bridges(topology, chain_a, common), count_bridges(topology, chain_b, common));
  return deepest <= 1 ? Proximity::pci_switch : Proximity::pci_bridges;
}

}  // namespace trireme
