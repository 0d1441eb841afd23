#include <trireme/topology/topology.h>

#include <gtest/gtest.h>

#include <trireme/base/philox.h>

namespace trireme {
namespace {

// Two packages; the first has two GPUs below one bridge, a third behind a second bridge
// of the same root; the second package has a GPU of its own. A second host beside it.
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
  const int host = add(-1, VertexKind::host, "node0");            // 0
  const int package0 = add(host, VertexKind::package, "p0");      // 1
  const int package1 = add(host, VertexKind::package, "p1");      // 2
  const int root0 = add(package0, VertexKind::pci_bridge, "r0");  // 3
  const int switch0 = add(root0, VertexKind::pci_bridge, "s0");   // 4
  add(switch0, VertexKind::gpu, "g0", 0);                         // 5
  add(switch0, VertexKind::gpu, "g1", 1);                         // 6
  const int switch1 = add(root0, VertexKind::pci_bridge, "s1");   // 7
  add(switch1, VertexKind::gpu, "g2", 2);                         // 8
  const int root1 = add(package1, VertexKind::pci_bridge, "r1");  // 9
  add(root1, VertexKind::gpu, "g3", 3);                           // 10
  const int root2 = add(package0, VertexKind::pci_bridge, "r2");  // 11
  add(root2, VertexKind::network_interface, "eth0");              // 12
  add(-1, VertexKind::host, "node1");                             // 13
  topology.links.push_back(Link{5, 8, LinkKind::nvlink, 25e9, 1, FigureSource::reported});
  return topology;
}

TEST(Topology, ProximityFollowsTheTreeAndNvlink) {
  const Topology topology = example();
  ASSERT_TRUE(topology.check().is_ok()) << topology.check().to_string();
  EXPECT_EQ(proximity(topology, 5, 5), Proximity::same);
  EXPECT_EQ(proximity(topology, 5, 6), Proximity::pci_switch);
  EXPECT_EQ(proximity(topology, 5, 8), Proximity::nvlink);
  EXPECT_EQ(proximity(topology, 6, 8), Proximity::pci_bridges);
  EXPECT_EQ(proximity(topology, 6, 12), Proximity::host_bridge);
  EXPECT_EQ(proximity(topology, 6, 10), Proximity::system);
  EXPECT_EQ(proximity(topology, 6, 13), Proximity::network);
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
