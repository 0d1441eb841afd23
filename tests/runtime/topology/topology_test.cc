#include <trireme/topology/topology.h>

#include <gtest/gtest.h>

#include <trireme/topology/discover.h>
#include <trireme/topology/format.h>

#include <trireme/base/philox.h>

namespace trireme {
namespace {

// Two packages with a NUMA node each. Below the first one's host bridge: a switch with two
// GPUs, and behind another switch a third GPU; a second host bridge has a NIC. The second
// package has a GPU of its own. A second host beside it, and a switch of the network.
Topology example() {
  Topology topology;
  const auto add = [&](int parent, VertexKind kind, std::string name, int os_index = -1) {
    Vertex vertex;
    vertex.id = static_cast<int>(topology.vertices.size());
    vertex.parent = parent;
    vertex.kind = kind;
    vertex.name = std::move(name);
    vertex.os_index = os_index;
    topology.vertices.push_back(vertex);
    return vertex.id;
  };
  const int host = add(-1, VertexKind::host, "node0");              // 0
  const int package0 = add(host, VertexKind::package, "p0");        // 1
  const int package1 = add(host, VertexKind::package, "p1");        // 2
  const int numa0 = add(package0, VertexKind::numa_node, "n0", 0);  // 3
  const int numa1 = add(package1, VertexKind::numa_node, "n1", 1);  // 4
  const int root0 = add(numa0, VertexKind::pci_bridge, "r0");       // 5
  const int up0 = add(root0, VertexKind::pci_bridge, "up0");        // 6
  const int down0 = add(up0, VertexKind::pci_bridge, "down0");      // 7
  const int down1 = add(up0, VertexKind::pci_bridge, "down1");      // 8
  add(down0, VertexKind::gpu, "g0", 0);                             // 9
  add(down1, VertexKind::gpu, "g1", 1);                             // 10
  const int down2 = add(up0, VertexKind::pci_bridge, "down2");      // 11
  const int up1 = add(down2, VertexKind::pci_bridge, "up1");        // 12
  const int down3 = add(up1, VertexKind::pci_bridge, "down3");      // 13
  add(down3, VertexKind::gpu, "g2", 2);                             // 14
  const int port = add(root0, VertexKind::pci_bridge, "port");      // 15
  add(port, VertexKind::network_interface, "eth0");                 // 16
  const int root1 = add(numa0, VertexKind::pci_bridge, "r1");       // 17
  add(root1, VertexKind::network_interface, "eth1");                // 18
  const int root2 = add(numa1, VertexKind::pci_bridge, "r2");       // 19
  add(root2, VertexKind::gpu, "g3", 3);                             // 20
  add(-1, VertexKind::host, "node1");                               // 21
  add(-1, VertexKind::network_switch, "leaf0");                     // 22
  Link link;
  link.a = 9;
  link.b = 20;
  link.kind = LinkKind::nvlink;
  link.bytes_per_second = 25e9;
  link.latency_us = 1;
  link.source = FigureSource::reported;
  link.lanes = 4;
  link.one_way = true;
  link.detail = "NVLink 2";
  topology.links.push_back(link);
  return topology;
}

TEST(Topology, ProximityFollowsTheTreeAndNvlink) {
  const Topology topology = example();
  ASSERT_TRUE(topology.check().is_ok()) << topology.check().to_string();
  EXPECT_EQ(proximity(topology, 9, 9), Proximity::same);
  EXPECT_EQ(proximity(topology, 9, 10), Proximity::pci_switch);
  EXPECT_EQ(proximity(topology, 9, 20), Proximity::nvlink);
  EXPECT_EQ(nvlink_lanes(topology, 9, 20), 4);
  EXPECT_EQ(proximity(topology, 10, 14), Proximity::pci_bridges);
  EXPECT_EQ(proximity(topology, 10, 16), Proximity::host_bridge);
  EXPECT_EQ(proximity(topology, 10, 18), Proximity::numa_node);
  EXPECT_EQ(proximity(topology, 10, 20), Proximity::system);
  EXPECT_EQ(proximity(topology, 10, 21), Proximity::network);
}

TEST(Topology, ProximityIsSymmetric) {
  const Topology topology = example();
  const int count = static_cast<int>(topology.vertices.size());
  for (int a = 0; a < count; ++a) {
    for (int b = 0; b < count; ++b) EXPECT_EQ(proximity(topology, a, b), proximity(topology, b, a)) << a << " " << b;
  }
}

TEST(Topology, JsonRoundTrips) {
  const Topology topology = example();
  const Result<Topology> back = topology_from_json(topology_to_json(topology));
  ASSERT_TRUE(back.is_ok()) << back.status().to_string();
  EXPECT_EQ(*back, topology);
}

TEST(Topology, ADescribedNetworkRoundTripsAndIsChecked) {
  Topology topology;
  topology.network = DescribedNetwork{8,
                                      0.5,
                                      1e12,
                                      {{"nvlink", LinkKind::nvlink, 8, 1, 1, 450e9, 1.5, 3.6e12},
                                       {"leaf", LinkKind::network, 256, 8, 1, 50e9, 3, 0},
                                       {"spine", LinkKind::network, 0, 1, 32, 1.6e12, 5, 0}}};
  const Result<Topology> back = topology_from_json(topology_to_json(topology));
  ASSERT_TRUE(back.is_ok()) << back.status().to_string();
  EXPECT_EQ(*back, topology);
  const auto refused = [&](auto&& change) {
    Topology wrong = topology;
    change(*wrong.network);
    const Result<Topology> result = topology_from_json(topology_to_json(wrong));
    EXPECT_FALSE(result.is_ok());
    return result.is_ok() ? std::string() : result.status().message();
  };
  EXPECT_NE(refused([](DescribedNetwork& n) { n.levels[1].rails = 3; }).find("rails is 3"), std::string::npos);
  EXPECT_NE(refused([](DescribedNetwork& n) { n.levels[1].reaches = 12; }).find("no multiple"), std::string::npos);
  EXPECT_NE(refused([](DescribedNetwork& n) { n.levels.pop_back(); }).find("must join all"), std::string::npos);
  EXPECT_NE(refused([](DescribedNetwork& n) { n.levels.clear(); }).find("no levels"), std::string::npos);
  EXPECT_NE(refused([](DescribedNetwork& n) { n.levels[0].bytes_per_second = 0; }).find("'nvlink'"), std::string::npos);
}

TEST(Topology, BadJsonIsNamedAndNeverCrashes) {
  const std::string good = topology_to_json(example());
  const auto message_of = [](const std::string& text) {
    const Result<Topology> result = topology_from_json(text);
    EXPECT_FALSE(result.is_ok());
    EXPECT_EQ(result.status().code(), StatusCode::invalid_argument);
    return result.status().message();
  };
  EXPECT_NE(message_of("{").find("JSON"), std::string::npos);
  EXPECT_NE(message_of(R"({"format":"other/9","vertices":[],"links":[]})").find("other/9"), std::string::npos);
  EXPECT_NE(message_of(R"({"format":"trireme-topology/1","vertices":[{"id":0,"parent":3,"kind":"host","name":"x"}],)"
                       R"("links":[]})")
                .find("parent 3"),
            std::string::npos);
  EXPECT_NE(message_of(R"({"format":"trireme-topology/1","vertices":[{"id":0,"parent":-1,"kind":"ship","name":"x"}],)"
                       R"("links":[]})")
                .find("ship"),
            std::string::npos);
  // Random single-byte damage either parses to a valid topology or is refused.
  const PhiloxKey key = make_philox_key(7, 1, 0);
  for (std::uint64_t round = 0; round < 500; ++round) {
    std::string text = good;
    text[philox_below(key, round, 0, text.size())] = static_cast<char>(philox_below(key, round, 1, 256));
    const Result<Topology> result = topology_from_json(text);
    EXPECT_TRUE(!result.is_ok() || result->check().is_ok());
  }
}

TEST(Topology, DiscoversThisHost) {
  const Result<Topology> topology = discover_host();
  ASSERT_TRUE(topology.is_ok()) << topology.status().to_string();
  ASSERT_EQ(topology->of_kind(VertexKind::host).size(), 1u);
  EXPECT_GE(static_cast<int>(topology->of_kind(VertexKind::core).size()), 1);
  EXPECT_GE(topology->of_kind(VertexKind::numa_node).size(), 1u);
  for (int id : topology->of_kind(VertexKind::numa_node)) {
    EXPECT_GT(topology->vertices[static_cast<std::size_t>(id)].memory_bytes, 0u);
  }
  const Result<Topology> back = topology_from_json(topology_to_json(*topology));
  ASSERT_TRUE(back.is_ok()) << back.status().to_string();
  EXPECT_EQ(*back, *topology);
  EXPECT_NE(format_tree(*topology).find("core"), std::string::npos);
  EXPECT_NE(format_matrix(*topology).find("NODE"), std::string::npos);
}

}  // namespace
}  // namespace trireme
