// Every path considered between two vertices, for `trireme topo --explain A B`.
#include <algorithm>

#include <fmt/format.h>
#include <trireme/topology/route.h>

namespace trireme {
namespace {

// Both are the transport cuda_ipc's.
constexpr const char* kNvlink = "cuda_ipc (NVLink)";
constexpr const char* kPeerToPeer = "cuda_ipc (PCIe)";

const Vertex& vertex_of(const Topology& topology, int id) {
  return topology.vertices[static_cast<std::size_t>(id)];
}

int host_of(const Topology& topology, int id) {
  while (vertex_of(topology, id).parent >= 0) id = vertex_of(topology, id).parent;
  return id;
}

class Considering {
 public:
  Considering(const Topology& topology, int a, int b)
      : topology_(topology), a_(a), b_(b), one_host_(host_of(topology, a) == host_of(topology, b)) {}

  std::vector<PathCandidate> run() {
    add_measured();
    if (kind(a_) == VertexKind::gpu && kind(b_) == VertexKind::gpu) {
      add_nvlink();
      add_peer_to_peer();
    }
    add_host_memory();
    add_network(VertexKind::rdma_device, "RDMA");
    add_network(VertexKind::network_interface, "TCP");
    choose();
    return std::move(candidates_);
  }

 private:
  VertexKind kind(int id) const { return vertex_of(topology_, id).kind; }

  PathCandidate& add(std::string name, std::string reason) {
    PathCandidate candidate;
    candidate.name = std::move(name);
    candidate.reason = std::move(reason);
    candidates_.push_back(std::move(candidate));
    return candidates_.back();
  }

  void set_figures(PathCandidate& candidate, const Route& route) {
    candidate.possible = true;
    candidate.bytes_per_second = route.bytes_per_second;
    candidate.latency_us = route.latency_us;
    // A path is as certain as the least certain of its hops.
    candidate.source = FigureSource::measured;
    for (const RouteHop& hop : route.hops) candidate.source = std::min(candidate.source, hop.source);
  }

  static std::string way_of(const Topology& topology, const Route& route) {
    if (route.hops.empty()) return "";
    std::string text = vertex_label(topology, route.hops.front().from);
    for (const RouteHop& hop : route.hops) text += " > " + vertex_label(topology, hop.to);
    const auto narrowest =
        std::min_element(route.hops.begin(), route.hops.end(),
                         [](const RouteHop& x, const RouteHop& y) { return x.bytes_per_second < y.bytes_per_second; });
    return text + fmt::format("; limited by {} > {} ({})", vertex_label(topology, narrowest->from),
                              vertex_label(topology, narrowest->to), to_string(narrowest->source));
  }

  void add_measured() {
    const int index = measured_link(topology_, a_, b_);
    if (index < 0) return;
    const Link& link = topology_.links[static_cast<std::size_t>(index)];
    PathCandidate& candidate = add("measured" + (link.detail.empty() ? "" : " (" + link.detail + ")"),
                                   "measured between these two: overrules what the machine's description claims");
    candidate.possible = true;
    candidate.bytes_per_second = link.bytes_per_second;
    candidate.latency_us = link.latency_us;
    candidate.source = FigureSource::measured;
  }

  void add_nvlink() {
    const int lanes = nvlink_lanes(topology_, a_, b_);
    if (lanes == 0) {
      add(kNvlink, "no NVLink joins them, directly or through a switch");
      return;
    }
    const Router only(topology_, {LinkKind::internal, LinkKind::memory, LinkKind::pci_express, LinkKind::network});
    const Result<Route> route = only.route(a_, b_);
    if (!route.is_ok()) {
      add(kNvlink, "NVLinks exist but lead nowhere: " + route.status().message());
      return;
    }
    set_figures(add(kNvlink, fmt::format("{} NVLinks; {}", lanes, way_of(topology_, *route))), *route);
  }

  void add_peer_to_peer() {
    if (!one_host_) {
      add(kPeerToPeer, "they are on different hosts");
      return;
    }
    const Proximity near = proximity(topology_, a_, b_);
    const Router without(topology_, {LinkKind::nvlink, LinkKind::network});
    const Result<Route> route = without.route(a_, b_);
    if (near == Proximity::system) {
      add(kPeerToPeer, "they are on different NUMA nodes, between which PCIe peer access is slow or refused");
    } else if (!route.is_ok()) {
      add(kPeerToPeer, route.status().message());
    } else {
      set_figures(add(kPeerToPeer, way_of(topology_, *route)), *route);
    }
  }

  void add_host_memory() {
    const bool staged = kind(a_) == VertexKind::gpu && kind(b_) == VertexKind::gpu;
    const bool processes = kind(a_) == VertexKind::rank || kind(b_) == VertexKind::rank;
    const std::string name = staged ? "through host memory" : processes ? "shared memory" : "PCIe and memory";
    if (!one_host_) {
      add(name, "they are on different hosts");
      return;
    }
    const Router without(topology_, {LinkKind::nvlink, LinkKind::network});
    const Result<Route> route = without.route(a_, b_);
    if (!route.is_ok()) {
      add(name, route.status().message());
      return;
    }
    PathCandidate& candidate = add(name, way_of(topology_, *route));
    set_figures(candidate, *route);
    // Staged copies cross the memory twice.
    if (staged) {
      candidate.bytes_per_second /= 2;
      candidate.latency_us *= 2;
    }
  }

  // The device of this kind that is fastest to reach from `id`, on its own host.
  int nearest_device(int id, VertexKind device_kind, const Router& inside) const {
    int best = -1;
    Proximity best_proximity = Proximity::network;
    double best_rate = 0;
    for (int device : topology_.of_kind(device_kind)) {
      if (host_of(topology_, device) != host_of(topology_, id) || !has_port(device)) continue;
      const Proximity near = proximity(topology_, id, device);
      const Result<Route> route = inside.route(id, device);
      const double rate = route.is_ok() ? route->bytes_per_second : 0;
      if (best >= 0 && (near > best_proximity || (near == best_proximity && rate <= best_rate))) continue;
      best = device;
      best_proximity = near;
      best_rate = rate;
    }
    return best;
  }

  bool has_port(int device) const {
    return std::any_of(topology_.links.begin(), topology_.links.end(), [&](const Link& link) {
      return link.kind == LinkKind::network && (link.a == device || link.b == device);
    });
  }

  void add_network(VertexKind device_kind, const std::string& name) {
    const std::string device_name = device_kind == VertexKind::rdma_device ? "RDMA device" : "network interface";
    if (one_host_ && a_ != b_) {
      add(name, "they are on one host, where memory is nearer than a network");
      return;
    }
    const Router inside(topology_, {LinkKind::network});
    const int near_a = nearest_device(a_, device_kind, inside);
    const int near_b = nearest_device(b_, device_kind, inside);
    if (near_a < 0 || near_b < 0) {
      add(name, fmt::format("the host of {} has no {} with an active port",
                            vertex_label(topology_, near_a < 0 ? a_ : b_), device_name));
      return;
    }
    const Router all(topology_);
    Route whole;
    for (const Result<Route>& part : {inside.route(a_, near_a), all.route(near_a, near_b), inside.route(near_b, b_)}) {
      if (!part.is_ok()) {
        add(name, part.status().message());
        return;
      }
      whole.hops.insert(whole.hops.end(), part->hops.begin(), part->hops.end());
      whole.latency_us += part->latency_us;
    }
    whole.bytes_per_second = whole.hops.front().bytes_per_second;
    for (const RouteHop& hop : whole.hops)
      whole.bytes_per_second = std::min(whole.bytes_per_second, hop.bytes_per_second);
    set_figures(add(name, way_of(topology_, whole)), whole);
  }

  // What was measured goes first; then the highest bandwidth, then the least latency.
  void choose() {
    const auto better = [](const PathCandidate& x, const PathCandidate& y) {
      if (x.possible != y.possible) return x.possible;
      const bool measured_x = x.source == FigureSource::measured;
      const bool measured_y = y.source == FigureSource::measured;
      if (measured_x != measured_y) return measured_x;
      if (x.bytes_per_second != y.bytes_per_second) return x.bytes_per_second > y.bytes_per_second;
      return x.latency_us < y.latency_us;
    };
    std::stable_sort(candidates_.begin(), candidates_.end(), better);
    for (std::size_t index = 0; index < candidates_.size(); ++index) {
      PathCandidate& candidate = candidates_[index];
      if (!candidate.possible) continue;
      candidate.taken = index == 0;
      if (!candidate.taken) candidate.reason = "slower than " + candidates_[0].name + ": " + candidate.reason;
    }
  }

  const Topology& topology_;
  int a_;
  int b_;
  bool one_host_;
  std::vector<PathCandidate> candidates_;
};

}  // namespace

std::vector<PathCandidate> consider_paths(const Topology& topology, int a, int b) {
  if (a == b) return {};
  return Considering(topology, a, b).run();
}

std::string explain_paths(const Topology& topology, int a, int b) {
  if (a == b) return vertex_label(topology, a) + " is itself: nothing to carry\n";
  std::string text = fmt::format("{} to {}: {}\n", vertex_label(topology, a), vertex_label(topology, b),
                                 proximity_code(proximity(topology, a, b)));
  for (const PathCandidate& path : consider_paths(topology, a, b)) {
    text += fmt::format("  {:<8} {:<20}", path.taken ? "taken" : "refused", path.name);
    if (path.possible) {
      text += fmt::format(" {:8.2f} GB/s {:8.2f} us  {:<9}", path.bytes_per_second * 1e-9, path.latency_us,
                          to_string(path.source));
    } else {
      text += fmt::format(" {:>8}      {:>8}     {:<9}", "-", "-", "");
    }
    text += " " + path.reason + "\n";
  }
  return text;
}

}  // namespace trireme
