// Topology for people: the matrix operators know, and the tree.
#include <algorithm>

#include <fmt/format.h>
#include <trireme/base/units.h>
#include <trireme/topology/topology.h>

namespace trireme {
namespace {

const Vertex& vertex_of(const Topology& topology, int id) {
  return topology.vertices[static_cast<std::size_t>(id)];
}

std::string label(const Topology& topology, int id) {
  const Vertex& vertex = vertex_of(topology, id);
  if (vertex.kind == VertexKind::gpu && vertex.os_index >= 0) return fmt::format("GPU{}", vertex.os_index);
  if (vertex.kind == VertexKind::numa_node) return fmt::format("NUMA{}", vertex.os_index);
  return vertex.name;
}

std::vector<int> matrix_rows(const Topology& topology) {
  std::vector<int> rows;
  for (VertexKind kind : {VertexKind::gpu, VertexKind::rdma_device, VertexKind::network_interface}) {
    const std::vector<int> ids = topology.of_kind(kind);
    rows.insert(rows.end(), ids.begin(), ids.end());
  }
  if (rows.size() < 2) {
    const std::vector<int> nodes = topology.of_kind(VertexKind::numa_node);
    rows.insert(rows.begin(), nodes.begin(), nodes.end());
  }
  return rows;
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

std::string format_matrix(const Topology& topology) {
  const std::vector<int> rows = matrix_rows(topology);
  std::size_t width = 5;
  for (int id : rows) width = std::max(width, label(topology, id).size() + 1);
  std::string text = fmt::format("{:{}}", "", width);
  for (int id : rows) text += fmt::format("{:>{}}", label(topology, id), width);
  text += '\n';
  for (int row : rows) {
    text += fmt::format("{:{}}", label(topology, row), width);
    for (int column : rows) text += fmt::format("{:>{}}", proximity_code(proximity(topology, row, column)), width);
    text += '\n';
  }
  text +=
      "\nX same   NV NVLink   PIX one PCIe bridge   PXB several PCIe bridges   PHB PCIe host bridge\n"
      "NODE within a NUMA node   SYS between NUMA nodes   NET between hosts\n";
  return text;
}

std::string format_tree(const Topology& topology) {
  std::vector<std::vector<int>> children(topology.vertices.size());
  for (const Vertex& vertex : topology.vertices) {
    if (vertex.parent >= 0) children[static_cast<std::size_t>(vertex.parent)].push_back(vertex.id);
  }
  std::string text;
  for (int host : topology.of_kind(VertexKind::host)) append_subtree(topology, children, host, text);
  return text;
}

}  // namespace trireme
