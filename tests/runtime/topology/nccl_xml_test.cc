#include <trireme/topology/nccl_xml.h>

#include <gtest/gtest.h>

#include <trireme/base/philox.h>
#include <trireme/topology/format.h>
#include <trireme/topology/route.h>

namespace trireme {
namespace {

// Shaped as NCCL writes it for a small machine: two sockets, four GPUs, two NICs.
constexpr const char* kXml = R"(<system version="1">
  <cpu numaid="0" affinity="00000000,0000ffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:17:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:18:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
        <pci busid="0000:19:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
          <gpu dev="0" sm="90" rank="0" gdr="1">
            <nvlink target="0000:05:00.0" count="9" tclass="0x068000"/>
            <nvlink target="0000:06:00.0" count="9" tclass="0x068000"/>
          </gpu>
        </pci>
      </pci>
      <pci busid="0000:1a:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic><net name="mlx5_0" dev="0" speed="400000" port="1" latency="0.000000" guid="0x1" maxconn="131072" gdr="1"/></nic>
      </pci>
    </pci>
    <nic><net name="eth0" dev="1" speed="10000" port="0" guid="0x0" maxconn="65536"/></nic>
  </cpu>
  <cpu numaid="1" affinity="00000000,ffff0000">
    <pci busid="0000:9b:00.0" class="0x030200" link_speed="16 GT/s" link_width="8">
      <gpu dev="1" sm="90" rank="1"><nvlink target="0000:05:00.0" count="18" tclass="0x068000"/></gpu>
    </pci>
    <pci busid="0000:9c:00.0" class="0x030200" link_speed="16 GT/s" link_width="16">
      <gpu dev="2" sm="70" rank="2"><nvlink target="0000:9d:00.0" count="2" tclass="0x030200"/></gpu>
    </pci>
    <pci busid="0000:9d:00.0" class="0x030200" link_speed="16 GT/s" link_width="16">
      <gpu dev="3" sm="70" rank="3"><nvlink target="0000:9c:00.0" count="2" tclass="0x030200"/></gpu>
    </pci>
  </cpu>
</system>)";

TEST(NcclXml, ReadsDevicesBridgesAndNvlinks) {
  const Result<Topology> topology = topology_from_nccl_xml(kXml);
  ASSERT_TRUE(topology.is_ok()) << topology.status().to_string();
  ASSERT_EQ(topology->of_kind(VertexKind::gpu).size(), 4u);
  EXPECT_EQ(topology->of_kind(VertexKind::numa_node).size(), 2u);
  const int gpu0 = find_vertex(*topology, "GPU0").value();
  const int gpu1 = find_vertex(*topology, "GPU1").value();
  const int nic = find_vertex(*topology, "mlx5_0").value();
  EXPECT_EQ(topology->vertices[static_cast<std::size_t>(nic)].kind, VertexKind::rdma_device);
  EXPECT_EQ(topology->vertices[static_cast<std::size_t>(find_vertex(*topology, "eth0").value())].kind,
            VertexKind::network_interface);
  EXPECT_EQ(nvlink_lanes(*topology, gpu0, gpu1), 18);
  EXPECT_EQ(proximity(*topology, gpu0, gpu1), Proximity::nvlink);
  EXPECT_EQ(nvlink_lanes(*topology, find_vertex(*topology, "GPU2").value(), find_vertex(*topology, "GPU3").value()), 2);
  EXPECT_EQ(proximity(*topology, gpu0, nic), Proximity::pci_switch);
  EXPECT_EQ(proximity(*topology, gpu1, nic), Proximity::system);
  const Route route = Router(*topology).route(gpu0, nic).value();
  EXPECT_NEAR(route.bytes_per_second, 32e9 * 16 * 128 / 130 / 8, 1e6);
  EXPECT_NE(format_matrix(*topology).find("NV18"), std::string::npos);
  const Result<Topology> back = topology_from_json(topology_to_json(*topology));
  ASSERT_TRUE(back.is_ok());
  EXPECT_EQ(*back, *topology);
}

TEST(NcclXml, BadFilesAreRefusedByName) {
  const auto message_of = [](const std::string& text) {
    const Result<Topology> result = topology_from_nccl_xml(text);
    EXPECT_FALSE(result.is_ok()) << text;
    return result.is_ok() ? std::string() : result.status().message();
  };
  EXPECT_NE(message_of("").find("NCCL topology"), std::string::npos);
  EXPECT_NE(message_of("<system><cpu>").find("at byte"), std::string::npos);
  EXPECT_NE(message_of("<graphs/>").find("no <system>"), std::string::npos);
  EXPECT_NE(message_of("<system/>").find("no <cpu>"), std::string::npos);
  EXPECT_NE(message_of("<system><cpu><pci/></cpu></system>").find("no busid"), std::string::npos);
  EXPECT_NE(message_of(R"(<system><cpu><nic><net name="x" speed="-4"/></nic></cpu></system>)").find("speed"),
            std::string::npos);
  EXPECT_NE(message_of(
                R"(<system><cpu><pci busid="a"><gpu dev="0"><nvlink target="b" count="0"/></gpu></pci></cpu></system>)")
                .find("count 0"),
            std::string::npos);
  std::string deep = "<system><cpu>";
  for (int i = 0; i < 200; ++i) deep += R"(<pci busid="x">)";
  for (int i = 0; i < 200; ++i) deep += "</pci>";
  EXPECT_NE(message_of(deep + "</cpu></system>").find("deeper"), std::string::npos);
}

TEST(NcclXml, RandomDamageNeverCrashes) {
  const PhiloxKey key = make_philox_key(11, 1, 0);
  for (std::uint64_t round = 0; round < 2000; ++round) {
    std::string text = kXml;
    for (std::uint64_t hit = 0; hit < 1 + round % 4; ++hit) {
      text[philox_below(key, round, 2 * hit, text.size())] =
          static_cast<char>(philox_below(key, round, 2 * hit + 1, 256));
    }
    if (round % 5 == 0) text.resize(philox_below(key, round, 99, text.size()));
    const Result<Topology> result = topology_from_nccl_xml(text);
    EXPECT_TRUE(!result.is_ok() || result->check().is_ok());
  }
}

}  // namespace
}  // namespace trireme
