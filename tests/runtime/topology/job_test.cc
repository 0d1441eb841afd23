#include <trireme/topology/job.h>

#include <gtest/gtest.h>

#include <trireme/topology/route.h>

namespace trireme {
namespace {

Topology host_with_card(int numa_nodes) {
  Topology topology;
  const auto add = [&](int parent, VertexKind kind, const std::string& name, int number = -1) {
    const int id = static_cast<int>(topology.vertices.size());
    topology.vertices.push_back({id, parent, kind, name, number, 0, ""});
    return id;
  };
  const int host = add(-1, VertexKind::host, "any");
  for (int node = 0; node < numa_nodes; ++node) add(host, VertexKind::numa_node, "numa", node);
  const int card = add(1, VertexKind::network_interface, "eth0");
  const int fabric = add(-1, VertexKind::network_switch, "ethernet");
  Link link;
  link.a = card;
  link.b = fabric;
  link.kind = LinkKind::network;
  link.bytes_per_second = 1e9;
  link.source = FigureSource::reported;
  topology.links.push_back(link);
  return topology;
}

TEST(Job, HostsMeetAtTheirNetworks) {
  const std::vector<JobRank> ranks = {
      {"node0", "a", host_with_card(1)}, {"node0", "a", {}}, {"node1", "b", host_with_card(2)}, {"node0", "a", {}}};
  const Result<Topology> job = join_topologies(ranks);
  ASSERT_TRUE(job.is_ok()) << job.status().to_string();
  EXPECT_EQ(job->of_kind(VertexKind::host).size(), 2u);
  EXPECT_EQ(job->of_kind(VertexKind::network_switch).size(), 1u);
  const std::vector<int> vertices = job->of_kind(VertexKind::rank);
  ASSERT_EQ(vertices.size(), 4u);
  EXPECT_EQ(job->vertices[static_cast<std::size_t>(vertices[2])].os_index, 2);
  EXPECT_EQ(proximity(*job, vertices[0], vertices[3]), Proximity::numa_node);
  EXPECT_EQ(proximity(*job, vertices[0], vertices[2]), Proximity::network);
  EXPECT_DOUBLE_EQ(Router(*job).route(vertices[0], vertices[2])->bytes_per_second, 1e9);
  EXPECT_EQ(vertex_label(*job, vertices[2]), "node1:RANK2");
}

TEST(Job, NamesTheRankWithoutATopology) {
  const Result<Topology> job = join_topologies({{"node0", "a", host_with_card(1)}, {"node1", "b", {}}});
  ASSERT_FALSE(job.is_ok());
  EXPECT_NE(job.status().message().find("rank 1 (node1)"), std::string::npos) << job.status().message();
}

}  // namespace
}  // namespace trireme
