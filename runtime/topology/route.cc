#include <trireme/topology/route.h>

#include <algorithm>
#include <limits>
#include <queue>

#include <trireme/base/check.h>

namespace trireme {
namespace {

constexpr double kProbeBytes = 1 << 20;

struct Figures {
  double bytes_per_second;
  double latency_us;
};

// For edges nobody has reported: today's servers, on the slow side. Sources: PCI Express
// 4.0 x16 (less protocol), cross-socket links of two-socket x86 servers, 10 Gb Ethernet.
Figures assumed(LinkKind kind) {
  switch (kind) {
    case LinkKind::memory:
      return {20e9, 0.1};
    case LinkKind::pci_express:
      return {25e9, 0.5};
    case LinkKind::nvlink:
      return {25e9, 0.5};
    case LinkKind::network:
      return {1.25e9, 10};
    case LinkKind::internal:
      break;
  }
  return {40e9, 0.1};
}

LinkKind tree_edge_kind(const Vertex& child, const Vertex& parent) {
  const auto on_pci = [](VertexKind kind) {
    return kind == VertexKind::gpu || kind == VertexKind::rdma_device || kind == VertexKind::network_interface ||
           kind == VertexKind::pci_bridge;
  };
  if (parent.kind == VertexKind::pci_bridge && on_pci(child.kind)) return LinkKind::pci_express;
  if (child.kind == VertexKind::numa_node) return LinkKind::memory;
  return LinkKind::internal;
}

}  // namespace

Router::Router(const Topology& topology, std::vector<LinkKind> without)
    : topology_(topology), without_(std::move(without)), edges_(topology.vertices.size()) {
  add_edges();
}

void Router::add_edges() {
  const auto vertex = [&](int id) -> const Vertex& { return topology_.vertices[static_cast<std::size_t>(id)]; };
  const auto add = [&](RouteHop hop) {
    if (std::find(without_.begin(), without_.end(), hop.kind) != without_.end()) return;
    const Figures figures = assumed(hop.kind);
    if (hop.bytes_per_second <= 0) hop.bytes_per_second = figures.bytes_per_second;
    if (hop.latency_us <= 0) hop.latency_us = figures.latency_us;
    edges_[static_cast<std::size_t>(hop.from)].push_back({hop.to, hop});
  };
  std::vector<bool> has_link_to_parent(topology_.vertices.size());
  for (std::size_t index = 0; index < topology_.links.size(); ++index) {
    const Link& link = topology_.links[index];
    if (vertex(link.a).parent == link.b) has_link_to_parent[static_cast<std::size_t>(link.a)] = true;
    if (vertex(link.b).parent == link.a) has_link_to_parent[static_cast<std::size_t>(link.b)] = true;
    const int number = static_cast<int>(index);
    // What was measured between two ranks is about them, not a way for others.
    if (vertex(link.a).kind == VertexKind::rank && vertex(link.b).kind == VertexKind::rank) continue;
    add({link.a, link.b, number, link.kind, link.bytes_per_second, link.latency_us, link.source});
    if (!link.one_way) add({link.b, link.a, number, link.kind, link.bytes_per_second, link.latency_us, link.source});
  }
  for (const Vertex& child : topology_.vertices) {
    if (child.parent < 0 || has_link_to_parent[static_cast<std::size_t>(child.id)]) continue;
    const LinkKind kind = tree_edge_kind(child, vertex(child.parent));
    add({child.id, child.parent, -1, kind, 0, 0, FigureSource::assumed});
    add({child.parent, child.id, -1, kind, 0, 0, FigureSource::assumed});
  }
}

int measured_link(const Topology& topology, int a, int b) {
  int best = -1;
  for (std::size_t index = 0; index < topology.links.size(); ++index) {
    const Link& link = topology.links[index];
    if (link.source != FigureSource::measured) continue;
    const bool joins = (link.a == a && link.b == b) || (!link.one_way && link.a == b && link.b == a);
    if (!joins) continue;
    if (best < 0 || link.bytes_per_second > topology.links[static_cast<std::size_t>(best)].bytes_per_second) {
      best = static_cast<int>(index);
    }
  }
  return best;
}

// Dijkstra, by latencies plus the probe's time over each hop. Summing over the hops
// (rather than taking the narrowest) also prefers the way that loads fewer links.
Result<Route> Router::route(int from, int to) const {
  const auto count = topology_.vertices.size();
  TRIREME_CHECK(from >= 0 && to >= 0 && from < static_cast<int>(count) && to < static_cast<int>(count),
                "no such vertex");
  Route route;
  if (from == to) return route;
  if (const int link = measured_link(topology_, from, to); link >= 0) {
    const Link& known = topology_.links[static_cast<std::size_t>(link)];
    route.hops = {{from, to, link, known.kind, known.bytes_per_second, known.latency_us, known.source}};
    route.bytes_per_second = known.bytes_per_second;
    route.latency_us = known.latency_us;
    return route;
  }
  std::vector<double> cost(count, std::numeric_limits<double>::infinity());
  std::vector<const Edge*> via(count, nullptr);
  std::priority_queue<std::pair<double, int>, std::vector<std::pair<double, int>>, std::greater<>> open;
  cost[static_cast<std::size_t>(from)] = 0;
  open.push({0, from});
  while (!open.empty()) {
    const auto [so_far, at] = open.top();
    open.pop();
    if (at == to) break;
    if (so_far > cost[static_cast<std::size_t>(at)]) continue;
    for (const Edge& edge : edges_[static_cast<std::size_t>(at)]) {
      const double next = so_far + edge.hop.latency_us * 1e-6 + kProbeBytes / edge.hop.bytes_per_second;
      if (next >= cost[static_cast<std::size_t>(edge.to)]) continue;
      cost[static_cast<std::size_t>(edge.to)] = next;
      via[static_cast<std::size_t>(edge.to)] = &edge;
      open.push({next, edge.to});
    }
  }
  if (via[static_cast<std::size_t>(to)] == nullptr) {
    return unavailable("nothing joins " + vertex_label(topology_, from) + " and " + vertex_label(topology_, to));
  }
  for (int at = to; at != from; at = via[static_cast<std::size_t>(at)]->hop.from) {
    route.hops.push_back(via[static_cast<std::size_t>(at)]->hop);
  }
  std::reverse(route.hops.begin(), route.hops.end());
  route.bytes_per_second = route.hops.front().bytes_per_second;
  for (const RouteHop& hop : route.hops) {
    route.bytes_per_second = std::min(route.bytes_per_second, hop.bytes_per_second);
    route.latency_us += hop.latency_us;
  }
  return route;
}

}  // namespace trireme
