// What the parts of discovery write into: a Topology in the making.
#pragma once

#include <string>

#include <trireme/topology/topology.h>

namespace trireme {

class GraphBuilder {
 public:
  int add(int parent, VertexKind kind, std::string name, int os_index = -1) {
    Vertex vertex;
    vertex.id = static_cast<int>(topology_.vertices.size());
    vertex.parent = parent;
    vertex.kind = kind;
    vertex.name = std::move(name);
    vertex.os_index = os_index;
    topology_.vertices.push_back(std::move(vertex));
    return topology_.vertices.back().id;
  }
  Link& link(int a, int b, LinkKind kind, double bytes_per_second, FigureSource source) {
    Link link;
    link.a = a;
    link.b = b;
    link.kind = kind;
    link.bytes_per_second = bytes_per_second;
    link.source = bytes_per_second > 0 ? source : FigureSource::unknown;
    topology_.links.push_back(std::move(link));
    return topology_.links.back();
  }
  // Of this kind from `a` to `b`, as link() was told; null when there is none.
  Link* find_link(int a, int b, LinkKind kind) {
    for (Link& link : topology_.links) {
      if (link.a == a && link.b == b && link.kind == kind) return &link;
    }
    return nullptr;
  }
  Vertex& at(int id) { return topology_.vertices[static_cast<std::size_t>(id)]; }
  const Topology& topology() const { return topology_; }
  Topology take() { return std::move(topology_); }

  // -1 when there is none.
  int find(VertexKind kind, const std::string& name) const {
    for (const Vertex& vertex : topology_.vertices) {
      if (vertex.kind == kind && vertex.name == name) return vertex.id;
    }
    return -1;
  }
  // The NUMA node that the operating system gives this number; the only one there is for
  // -1 (which firmware writes when it does not know); `fallback` otherwise.
  int numa_node(int os_index, int fallback) const {
    int only = -1;
    int count = 0;
    for (const Vertex& vertex : topology_.vertices) {
      if (vertex.kind != VertexKind::numa_node) continue;
      if (vertex.os_index == os_index) return vertex.id;
      only = vertex.id;
      ++count;
    }
    return count == 1 ? only : fallback;
  }

 private:
  Topology topology_;
};

}  // namespace trireme
