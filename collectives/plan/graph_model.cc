// The model of a topology whose vertices and links are listed: routes through the graph.
#include <algorithm>
#include <map>
#include <set>

#include <fmt/core.h>
#include <trireme/topology/route.h>

#include "collectives/plan/api/network_model.h"

namespace trireme::plan {
namespace {

int host_of(const Topology& topology, int id) {
  const auto parent = [&](int at) { return topology.vertices[static_cast<std::size_t>(at)].parent; };
  while (parent(id) >= 0) id = parent(id);
  return id;
}

class GraphModel final : public NetworkModel {
 public:
  GraphModel(const Topology& topology, std::vector<int> vertices)
      : topology_(topology), router_(topology_), vertices_(std::move(vertices)) {
    ranks_ = static_cast<int>(vertices_.size());
    ranks_per_host_ = even_ranks_per_host();
    read_own_figures();
  }

  // Finds all paths, so that path() cannot fail.
  Status prepare() {
    paths_.resize(static_cast<std::size_t>(ranks_) * static_cast<std::size_t>(ranks_));
    for (int from = 0; from < ranks_; ++from) {
      for (int to = 0; to < ranks_; ++to) {
        if (from == to) continue;
        TRIREME_ASSIGN_OR_RETURN(const Route route, router_.route(vertices_[static_cast<std::size_t>(from)],
                                                                  vertices_[static_cast<std::size_t>(to)]));
        paths_[index(from, to)] = path_of(route, from);
      }
    }
    return Status::ok();
  }

  std::size_t resource_count() const override { return resources_.size(); }
  double seconds_per_byte(std::uint32_t resource) const override { return resources_[resource].seconds_per_byte; }
  Resource resource(std::uint32_t resource) const override { return resources_[resource]; }
  Path path(int from, int to) const override { return paths_[index(from, to)]; }

 private:
  int even_ranks_per_host() const {
    const auto host = [&](std::size_t rank) { return host_of(topology_, vertices_[rank]); };
    std::size_t first = 1;
    while (first < vertices_.size() && host(first) == host(0)) ++first;
    if (vertices_.size() % first != 0) return 0;
    std::set<int> hosts;
    for (std::size_t rank = 0; rank < vertices_.size(); ++rank) {
      const bool begins = rank % first == 0;
      if (begins ? !hosts.insert(host(rank)).second : host(rank) != host(rank - 1)) return 0;
    }
    return static_cast<int>(first);
  }

  std::size_t index(int from, int to) const {
    return static_cast<std::size_t>(from) * static_cast<std::size_t>(ranks_) + static_cast<std::size_t>(to);
  }

  // A measured link between a rank and its parent says what the rank itself does: its
  // local work per second, and its time per message. The slowest rank counts for all.
  void read_own_figures() {
    for (int vertex : vertices_) {
      const int own = measured_link(topology_, vertex, topology_.vertices[static_cast<std::size_t>(vertex)].parent);
      if (own < 0) continue;
      const Link& link = topology_.links[static_cast<std::size_t>(own)];
      if (link.bytes_per_second > 0) work_s_per_byte_ = std::max(work_s_per_byte_, 1 / link.bytes_per_second);
      message_s_ = std::max(message_s_, link.latency_us * 1e-6);
    }
  }

  std::uint32_t resource_of(int from, int to, double bytes_per_second, const std::string& detail) {
    const auto [place, is_new] = ids_.try_emplace({from, to}, static_cast<std::uint32_t>(resources_.size()));
    if (is_new) {
      const std::string ends = vertex_label(topology_, from) + " > " + vertex_label(topology_, to);
      resources_.push_back({1 / bytes_per_second, detail.empty() ? ends : detail, ends});
    }
    return place->second;
  }

  Path path_of(const Route& route, int from) {
    std::vector<RouteHop> hops = route.hops;
    // More hops than fit: the widest matter least.
    while (hops.size() > static_cast<std::size_t>(Path::kMostHops - 1)) {
      hops.erase(std::max_element(hops.begin(), hops.end(), [](const RouteHop& x, const RouteHop& y) {
        return x.bytes_per_second < y.bytes_per_second;
      }));
    }
    Path path;
    path.latency_s = route.latency_us * 1e-6;
    const auto add = [&](std::uint32_t id) { path.hops[static_cast<std::size_t>(path.count++)] = id; };
    for (const RouteHop& hop : hops) {
      const std::string detail =
          hop.link >= 0 ? topology_.links[static_cast<std::size_t>(hop.link)].detail : std::string();
      add(resource_of(hop.from, hop.to, hop.bytes_per_second, detail));
    }
    const bool is_pair = route.hops.size() == 1 && route.hops[0].source == FigureSource::measured;
    if (is_pair && route.hops[0].kind == LinkKind::memory) add_memory(from, add);
    return path;
  }

  // What all pairs of a host share, when it was measured: its memory's link.
  template <typename Add>
  void add_memory(int from, const Add& add) {
    const int host = host_of(topology_, vertices_[static_cast<std::size_t>(from)]);
    for (const Link& link : topology_.links) {
      const bool ours = link.a == host || link.b == host;
      if (!ours || link.kind != LinkKind::memory || link.source != FigureSource::measured) continue;
      add(resource_of(host, link.a == host ? link.b : link.a, link.bytes_per_second, "memory"));
      return;
    }
  }

  Topology topology_;
  Router router_;
  std::vector<int> vertices_;
  std::vector<Resource> resources_;
  std::map<std::pair<int, int>, std::uint32_t> ids_;
  std::vector<Path> paths_;
};

}  // namespace

Result<std::unique_ptr<NetworkModel>> make_graph_model(const Topology& topology, int ranks) {
  std::vector<int> vertices = topology.of_kind(VertexKind::rank);
  const auto number = [&](int id) { return topology.vertices[static_cast<std::size_t>(id)].os_index; };
  std::stable_sort(vertices.begin(), vertices.end(), [&](int a, int b) { return number(a) < number(b); });
  const bool gpus = vertices.empty();
  if (gpus) vertices = topology.of_kind(VertexKind::gpu);
  if (static_cast<int>(vertices.size()) < ranks) {
    return invalid_argument(
        fmt::format("{} ranks were asked for, but the topology has {} {}: give one with more, or with a \"network\", "
                    "which describes any number (docs/formats/topology.md)",
                    ranks, vertices.size(), gpus ? "GPUs and no ranks" : "ranks"));
  }
  vertices.resize(static_cast<std::size_t>(ranks));
  auto model = std::make_unique<GraphModel>(topology, std::move(vertices));
  TRIREME_RETURN_IF_ERROR(model->prepare());
  return std::unique_ptr<NetworkModel>(std::move(model));
}

}  // namespace trireme::plan
