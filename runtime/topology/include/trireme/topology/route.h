// Routes: the way data takes between two vertices, and every way considered.
//
// A route follows links and the tree. A link's own figures count; an edge without any
// gets an assumed figure of its kind. A measured link between the two ends overrules
// whatever the graph would say. Pure functions on values.
#pragma once

#include <string>
#include <vector>

#include <trireme/topology/topology.h>

namespace trireme {

struct RouteHop {
  int from = 0;
  int to = 0;
  int link = -1;  // Index into Topology::links; -1: an edge of the tree with assumed figures.
  LinkKind kind = LinkKind::internal;
  double bytes_per_second = 0;
  double latency_us = 0;
  FigureSource source = FigureSource::assumed;
};

struct Route {
  std::vector<RouteHop> hops;   // Empty: the two ends are one.
  double bytes_per_second = 0;  // Of the narrowest hop.
  double latency_us = 0;        // Sum over the hops.
};

// Finds routes from one vertex after the other over one topology.
// Thread safety: const methods from any thread. The topology must outlive it.
class Router {
 public:
  // What a route may not use: kinds of links, e.g. everything but NVLink.
  explicit Router(const Topology& topology, std::vector<LinkKind> without = {});
  // The fastest way for a message of 1 MiB (time over the narrowest hop plus latencies);
  // the first found of equals. Errors: unavailable naming both when nothing joins them.
  Result<Route> route(int from, int to) const;

 private:
  struct Edge {
    int to = 0;
    RouteHop hop;
  };
  void add_edges();
  const Topology& topology_;
  std::vector<LinkKind> without_;
  std::vector<std::vector<Edge>> edges_;  // By vertex.
};

// The best measured link from `a` to `b`; -1 when none was measured.
int measured_link(const Topology& topology, int a, int b);

// One way to carry data between two vertices, and whether it is the one to take.
struct PathCandidate {
  std::string name;  // "cuda_ipc (NVLink)", "cuda_ipc (PCIe)", "shared memory", "RDMA", "TCP", ...
  bool possible = false;
  bool taken = false;
  double bytes_per_second = 0;
  double latency_us = 0;
  FigureSource source = FigureSource::unknown;
  std::string reason;  // Why taken or refused, as a sentence.
};

// Every path considered between two vertices (GPUs, ranks, interfaces, NUMA nodes), best
// first; exactly one is taken when any is possible. REQUIRES: the ids are in the topology.
std::vector<PathCandidate> consider_paths(const Topology& topology, int a, int b);
// The vertex that `name` means: "GPU0", "NUMA1", "RANK3" (or "3" when there are ranks), or
// a vertex's own name. Errors: not_found listing what there is.
Result<int> find_vertex(const Topology& topology, const std::string& name);
// consider_paths() for people, several lines.
std::string explain_paths(const Topology& topology, int a, int b);
// "GPU0", "NUMA1", "RANK3", or the vertex's own name; with its host when there are several.
std::string vertex_label(const Topology& topology, int id);

}  // namespace trireme
