#include <trireme/topology/route.h>

#include <gtest/gtest.h>

namespace trireme {
namespace {

// Two hosts with a rank on each of two NUMA nodes, a NIC each, one switch.
struct Cluster {
  Topology topology;
  int ranks[4];
  int nics[2];
  int fabric;

  int add(int parent, VertexKind kind, std::string name, int os_index = -1) {
    Vertex vertex;
    vertex.id = static_cast<int>(topology.vertices.size());
    vertex.parent = parent;
    vertex.kind = kind;
    vertex.name = std::move(name);
    vertex.os_index = os_index;
    topology.vertices.push_back(vertex);
    return vertex.id;
  }
  Link& link(int a, int b, LinkKind kind, double rate, double latency, FigureSource source) {
    Link link;
    link.a = a;
    link.b = b;
    link.kind = kind;
    link.bytes_per_second = rate;
    link.latency_us = latency;
    link.source = source;
    topology.links.push_back(link);
    return topology.links.back();
  }
  Cluster() {
    fabric = add(-1, VertexKind::network_switch, "ethernet");
    for (int h = 0; h < 2; ++h) {
      const int host = add(-1, VertexKind::host, "node" + std::to_string(h));
      for (int n = 0; n < 2; ++n) {
        const int numa = add(host, VertexKind::numa_node, "numa", n);
        link(host, numa, LinkKind::memory, 30e9, 0.1, FigureSource::reported);
        ranks[2 * h + n] = add(numa, VertexKind::rank, "rank " + std::to_string(2 * h + n), 2 * h + n);
        if (n == 0) nics[h] = add(numa, VertexKind::network_interface, "eth0");
      }
      link(nics[h], fabric, LinkKind::network, 1.25e9, 5, FigureSource::reported);
    }
  }
};

TEST(Route, TakesTheNarrowestHopAndAddsLatencies) {
  const Cluster cluster;
  const Route far = Router(cluster.topology).route(cluster.ranks[0], cluster.ranks[3]).value();
  EXPECT_DOUBLE_EQ(far.bytes_per_second, 1.25e9);
  EXPECT_GE(far.latency_us, 10);
  EXPECT_EQ(far.hops.front().from, cluster.ranks[0]);
  EXPECT_EQ(far.hops.back().to, cluster.ranks[3]);
  for (std::size_t i = 1; i < far.hops.size(); ++i) EXPECT_EQ(far.hops[i].from, far.hops[i - 1].to);
  const Route near = Router(cluster.topology).route(cluster.ranks[0], cluster.ranks[1]).value();
  EXPECT_DOUBLE_EQ(near.bytes_per_second, 30e9);
  EXPECT_TRUE(Router(cluster.topology).route(cluster.ranks[2], cluster.ranks[2])->hops.empty());
}

TEST(Route, NothingJoinsSeparateHosts) {
  const Cluster cluster;
  const Result<Route> route = Router(cluster.topology, {LinkKind::network}).route(cluster.ranks[0], cluster.ranks[2]);
  ASSERT_FALSE(route.is_ok());
  EXPECT_NE(route.status().message().find("node0:RANK0"), std::string::npos) << route.status().message();
}

// A described machine may lie (virtual machines hide their buses): what was measured counts.
TEST(Route, MeasuredOverrulesTheDescription) {
  Cluster cluster;
  Link& measured = cluster.link(cluster.ranks[0], cluster.ranks[1], LinkKind::memory, 3e9, 0.9, FigureSource::measured);
  measured.detail = "shm";
  measured.one_way = true;
  const Router router(cluster.topology);
  EXPECT_DOUBLE_EQ(router.route(cluster.ranks[0], cluster.ranks[1])->bytes_per_second, 3e9);
  EXPECT_DOUBLE_EQ(router.route(cluster.ranks[1], cluster.ranks[0])->bytes_per_second, 30e9);
  const auto paths = consider_paths(cluster.topology, cluster.ranks[0], cluster.ranks[1]);
  ASSERT_FALSE(paths.empty());
  EXPECT_TRUE(paths[0].taken);
  EXPECT_EQ(paths[0].name, "measured (shm)");
}

TEST(Paths, ExactlyOneIsTakenAndAllAreExplained) {
  const Cluster cluster;
  for (int a : cluster.ranks) {
    for (int b : cluster.ranks) {
      if (a == b) continue;
      int taken = 0;
      for (const PathCandidate& path : consider_paths(cluster.topology, a, b)) {
        taken += path.taken;
        EXPECT_FALSE(path.reason.empty());
        EXPECT_EQ(path.possible, path.bytes_per_second > 0);
      }
      EXPECT_EQ(taken, 1);
    }
  }
  const std::string text = explain_paths(cluster.topology, cluster.ranks[0], cluster.ranks[2]);
  EXPECT_NE(text.find("taken    TCP"), std::string::npos) << text;
  EXPECT_NE(text.find("no RDMA device with an active port"), std::string::npos) << text;
  EXPECT_NE(text.find("1.25 GB/s"), std::string::npos) << text;
}

TEST(Paths, FindsVerticesByTheNamesOfTheMatrix) {
  const Cluster cluster;
  EXPECT_EQ(find_vertex(cluster.topology, "RANK3").value(), cluster.ranks[3]);
  EXPECT_EQ(find_vertex(cluster.topology, "3").value(), cluster.ranks[3]);
  EXPECT_EQ(find_vertex(cluster.topology, "node1:eth0").value(), cluster.nics[1]);
  const Result<int> none = find_vertex(cluster.topology, "GPU9");
  ASSERT_FALSE(none.is_ok());
  EXPECT_NE(none.status().message().find("node0:RANK1"), std::string::npos) << none.status().message();
}

}  // namespace
}  // namespace trireme
