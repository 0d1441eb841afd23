// Topology for people: the matrix operators know, and the tree.
#include <trireme/topology/format.h>

#include <algorithm>

#include <fmt/format.h>
#include <trireme/base/units.h>
#include <trireme/topology/route.h>

namespace trireme {
namespace {

constexpr const char* kLegend =
    "\nLegend:\n"
    "  X     itself\n"
    "  NV#   # NVLinks, directly or through NVLink switches\n"
    "  PIX   at most one PCIe switch\n"
    "  PXB   several PCIe bridges, not the host bridge\n"
    "  PHB   a PCIe host bridge\n"
    "  NODE  PCIe host bridges within one NUMA node\n"
    "  SYS   between NUMA nodes or packages\n"
    "  NET   between hosts\n"
    "  SHM, TCP, RDMA   two ranks, and the transport that was measured between them\n";

const Vertex& vertex_of(const Topology& topology, int id) {
  return topology.vertices[static_cast<std::size_t>(id)];
}

std::string short_label(const Vertex& vertex) {
  if (vertex.kind == VertexKind::gpu && vertex.os_index >= 0) return fmt::format("GPU{}", vertex.os_index);
  if (vertex.kind == VertexKind::numa_node) return fmt::format("NUMA{}", vertex.os_index);
  if (vertex.kind == VertexKind::rank) return fmt::format("RANK{}", vertex.os_index);
  return vertex.name;
}

std::vector<int> matrix_rows(const Topology& topology) {
  std::vector<int> rows;
  for (VertexKind kind : {VertexKind::gpu, VertexKind::rdma_device, VertexKind::network_interface, VertexKind::rank}) {
    const std::vector<int> ids = topology.of_kind(kind);
    rows.insert(rows.end(), ids.begin(), ids.end());
  }
  if (rows.size() < 2) {
    const std::vector<int> nodes = topology.of_kind(VertexKind::numa_node);
    rows.insert(rows.begin(), nodes.begin(), nodes.end());
  }
  return rows;
}

int host_of(const Topology& topology, int id) {
  while (vertex_of(topology, id).parent >= 0) id = vertex_of(topology, id).parent;
  return id;
}

// How two ranks reach each other, by what was measured or by where they are.
std::string rank_code(const Topology& topology, int a, int b) {
  if (const int link = measured_link(topology, a, b); link >= 0) {
    const std::string& how = topology.links[static_cast<std::size_t>(link)].detail;
    if (how == "verbs") return "RDMA";
    if (!how.empty()) {
      std::string code = how;
      std::transform(code.begin(), code.end(), code.begin(), [](unsigned char c) { return std::toupper(c); });
      return code;
    }
  }
  return host_of(topology, a) == host_of(topology, b) ? "SHM" : "NET";
}

std::string code_of(const Topology& topology, int a, int b) {
  const Proximity near = proximity(topology, a, b);
  if (near == Proximity::nvlink) return fmt::format("NV{}", nvlink_lanes(topology, a, b));
  const bool ranks = vertex_of(topology, a).kind == VertexKind::rank && vertex_of(topology, b).kind == VertexKind::rank;
  if (ranks && a != b) return rank_code(topology, a, b);
  return std::string(proximity_code(near));
}

// The NUMA node above a vertex; the vertex itself when it is one; -1.
int numa_above(const Topology& topology, int id) {
  for (int at = id; at >= 0; at = vertex_of(topology, at).parent) {
    if (vertex_of(topology, at).kind == VertexKind::numa_node) return at;
  }
  return -1;
}

int depth_of(const Topology& topology, int id) {
  int depth = 0;
  for (int at = vertex_of(topology, id).parent; at >= 0; at = vertex_of(topology, at).parent) ++depth;
  return depth;
}

void append_subtree(const Topology& topology, const std::vector<std::vector<int>>& children, int id,
                    std::string& text) {
  const Vertex& vertex = vertex_of(topology, id);
  text += fmt::format("{:{}}{} {}", "", 2 * depth_of(topology, id), to_string(vertex.kind), vertex.name);
  if (vertex.memory_bytes > 0) text += fmt::format(", {}", format_bytes(vertex.memory_bytes));
  if (!vertex.detail.empty()) text += fmt::format(" ({})", vertex.detail);
  text += '\n';
  for (int child : children[static_cast<std::size_t>(id)]) append_subtree(topology, children, child, text);
}

}  // namespace

std::string vertex_label(const Topology& topology, int id) {
  const std::string own = short_label(vertex_of(topology, id));
  const int host = host_of(topology, id);
  if (host == id || topology.of_kind(VertexKind::host).size() < 2) return own;
  return vertex_of(topology, host).name + ":" + own;
}

Result<int> find_vertex(const Topology& topology, const std::string& name) {
  std::string known;
  std::size_t listed = 0;
  for (const Vertex& vertex : topology.vertices) {
    const std::string own = short_label(vertex);
    const bool is_rank = vertex.kind == VertexKind::rank && name == std::to_string(vertex.os_index);
    if (name == own || name == vertex.name || name == vertex_label(topology, vertex.id) || is_rank) return vertex.id;
    if (vertex.kind == VertexKind::core || vertex.kind == VertexKind::pci_bridge || ++listed > 40) continue;
    known += (known.empty() ? "" : ", ") + vertex_label(topology, vertex.id);
  }
  return not_found("the topology has no '" + name + "'; it has " + known);
}

std::string format_matrix(const Topology& topology) {
  const std::vector<int> rows = matrix_rows(topology);
  std::size_t width = 5;
  for (int id : rows) width = std::max(width, vertex_label(topology, id).size() + 1);
  std::string text = fmt::format("{:{}}", "", width);
  for (int id : rows) text += fmt::format("{:>{}}", vertex_label(topology, id), width);
  text += "  CPU affinity    NUMA affinity\n";
  for (int row : rows) {
    text += fmt::format("{:{}}", vertex_label(topology, row), width);
    for (int column : rows) text += fmt::format("{:>{}}", code_of(topology, row, column), width);
    const int numa = numa_above(topology, row);
    std::string cpus = numa < 0 ? "" : vertex_of(topology, numa).detail;
    if (cpus.rfind("cpus ", 0) == 0) cpus.erase(0, 5);
    text += fmt::format("  {:<14}  {}\n", cpus, numa < 0 ? "N/A" : std::to_string(vertex_of(topology, numa).os_index));
  }
  return text + kLegend;
}

std::string format_tree(const Topology& topology) {
  std::vector<std::vector<int>> children(topology.vertices.size());
  for (const Vertex& vertex : topology.vertices) {
    if (vertex.parent >= 0) children[static_cast<std::size_t>(vertex.parent)].push_back(vertex.id);
  }
  std::string text;
  for (const Vertex& vertex : topology.vertices) {
    if (vertex.parent < 0) append_subtree(topology, children, vertex.id, text);
  }
  return text;
}

}  // namespace trireme
