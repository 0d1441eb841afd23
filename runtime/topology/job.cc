#include <trireme/topology/job.h>

#include <map>

#include "runtime/topology/graph_builder.h"

namespace trireme {
namespace {

// Copies `part` into `graph`. Returns the id of its host.
int append(GraphBuilder& graph, const Topology& part, const std::string& host_name) {
  std::vector<int> ids;
  int host = -1;
  for (const Vertex& vertex : part.vertices) {
    int id = vertex.kind == VertexKind::network_switch ? graph.find(VertexKind::network_switch, vertex.name) : -1;
    if (id < 0) {
      const int parent = vertex.parent < 0 ? -1 : ids[static_cast<std::size_t>(vertex.parent)];
      id = graph.add(parent, vertex.kind, vertex.kind == VertexKind::host ? host_name : vertex.name, vertex.os_index);
      graph.at(id).memory_bytes = vertex.memory_bytes;
      graph.at(id).detail = vertex.detail;
    }
    if (vertex.kind == VertexKind::host) host = id;
    ids.push_back(id);
  }
  for (Link link : part.links) {
    const int a = ids[static_cast<std::size_t>(link.a)];
    const int b = ids[static_cast<std::size_t>(link.b)];
    Link& copy = graph.link(a, b, link.kind, link.bytes_per_second, link.source);
    copy = link;
    copy.a = a;
    copy.b = b;
  }
  return host;
}

// Where a rank of the host hangs: its NUMA node when there is but one.
int place_of(const GraphBuilder& graph, int host) {
  int found = host;
  int count = 0;
  for (int node : graph.topology().of_kind(VertexKind::numa_node)) {
    int root = node;
    while (graph.topology().vertices[static_cast<std::size_t>(root)].parent >= 0) {
      root = graph.topology().vertices[static_cast<std::size_t>(root)].parent;
    }
    if (root != host) continue;
    found = node;
    ++count;
  }
  return count == 1 ? found : host;
}

}  // namespace

Result<Topology> join_topologies(const std::vector<JobRank>& ranks) {
  GraphBuilder graph;
  std::map<std::string, int> hosts;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto [place, is_new] = hosts.try_emplace(ranks[rank].host_identity, -1);
    if (is_new) {
      const Topology& own = ranks[rank].topology;
      if (own.of_kind(VertexKind::host).size() != 1) {
        return invalid_argument("rank " + std::to_string(rank) + " (" + ranks[rank].host +
                                ") is the first of its host, but its topology has " +
                                std::to_string(own.of_kind(VertexKind::host).size()) + " hosts; expected one");
      }
      TRIREME_RETURN_IF_ERROR(own.check());
      place->second = append(graph, own, ranks[rank].host);
    }
    graph.add(place_of(graph, place->second), VertexKind::rank, "rank " + std::to_string(rank), static_cast<int>(rank));
  }
  Topology topology = graph.take();
  TRIREME_RETURN_IF_ERROR(topology.check());
  return topology;
}

}  // namespace trireme
