#include "runtime/transport/verbs/verbs_wire.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "runtime/transport/verbs/verbs_ports.h"

namespace trireme::test {
namespace {

RdmaGid ipv4(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d, std::uint32_t index = 1) {
  RdmaGid gid;
  gid.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d};
  gid.type = GidType::roce_v2;
  gid.index = index;
  return gid;
}

VerbsPortInfo port(const std::string& device, const RdmaGid& gid, double speed = 1e9) {
  VerbsPortInfo info;
  info.device = device;
  info.ethernet = true;
  info.mtu = 3;
  info.bytes_per_second = speed;
  info.gids = {gid};
  return info;
}

VerbsHello sample_hello() {
  VerbsHello hello;
  hello.channel = {.job_hash = 1, .from_rank = 2, .to_rank = 3, .context = 4, .ordinal = 5};
  hello.ring_address = 0x7f0000001000;
  hello.ring_bytes = 1 << 18;
  hello.rails = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}, {10, 11, 12}};
  return hello;
}

TEST(VerbsHello, SurvivesTheWireAndFitsTheSmallestFrame) {
  const std::string token(kVerbsTokenBytes, 't');
  VerbsHello hello = sample_hello();
  EXPECT_LE(hello.encode(token).size(), kVerbsDatagramBytes);
  EXPECT_EQ(VerbsHello::decode(token, hello.encode(token)).value(), hello);
  hello.answer = true;
  EXPECT_EQ(VerbsHello::decode(token, hello.encode(token)).value(), hello);
  VerbsHello refusal;
  refusal.answer = true;
  refusal.refusal = std::string(64, 'x');
  EXPECT_EQ(VerbsHello::decode(token, refusal.encode(token)).value(), refusal);
  VerbsHello heard;
  heard.answer = true;
  EXPECT_TRUE(VerbsHello::decode(token, heard.encode(token)).value().heard());
}

TEST(VerbsHello, EveryChangedByteIsNoticed) {
  const std::string token(kVerbsTokenBytes, 't');
  const std::string good = sample_hello().encode(token);
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    EXPECT_FALSE(VerbsHello::decode(token, bad).is_ok()) << "byte " << i;
    EXPECT_FALSE(VerbsHello::decode(token, good.substr(0, i)).is_ok()) << "cut at " << i;
  }
  EXPECT_EQ(VerbsHello::decode(std::string(kVerbsTokenBytes, 'u'), good).status().code(),
            StatusCode::permission_denied);
}

TEST(VerbsHello, AMemberCannotMakeUsWriteOutsideARing) {
  const std::string token(kVerbsTokenBytes, 't');
  for (std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{3000}, std::uint64_t{1} << 29}) {
    VerbsHello hello = sample_hello();
    hello.ring_bytes = bytes;
    EXPECT_EQ(VerbsHello::decode(token, hello.encode(token)).status().code(), StatusCode::data_loss) << bytes;
  }
  VerbsHello nothing = sample_hello();
  nothing.rails.clear();
  EXPECT_FALSE(VerbsHello::decode(token, nothing.encode(token)).is_ok());
}

TEST(VerbsEndpoint, SurvivesTheWireAndRefusesWhatIsCut) {
  VerbsEndpoint endpoint;
  endpoint.token = std::string(kVerbsTokenBytes, 'k');
  endpoint.mailbox_key = 77;
  endpoint.most_rails = 2;
  endpoint.ports = {port("mlx5_0", ipv4(10, 0, 0, 1), 5e10), port("mlx5_1", ipv4(10, 0, 1, 1))};
  const std::string text = endpoint.encode();
  const auto decoded = VerbsEndpoint::decode(text);
  ASSERT_TRUE(decoded.is_ok());
  EXPECT_EQ(decoded->ports[0].gids, endpoint.ports[0].gids);
  EXPECT_EQ(decoded->ports[0].bytes_per_second, 5e10);
  EXPECT_EQ(decoded->ports[1].device, "mlx5_1");
  for (std::size_t i = 0; i < text.size(); ++i) EXPECT_FALSE(VerbsEndpoint::decode(text.substr(0, i)).is_ok()) << i;
}

TEST(VerbsRails, BothEndsFindTheSameOnes) {
  std::mt19937 random(5);
  for (int round = 0; round < 500; ++round) {
    std::vector<VerbsPortInfo> a(1 + random() % 4);
    std::vector<VerbsPortInfo> b(1 + random() % 4);
    std::uint8_t host = 1;
    for (auto* list : {&a, &b}) {
      for (auto& info : *list) {
        info = port("nic", ipv4(10, 0, static_cast<std::uint8_t>(random() % 3), host++), 1e9 * (1 + random() % 3));
      }
    }
    const std::size_t most = 1 + random() % 4;
    const auto from_a = choose_verbs_rails(a, b, most);
    auto from_b = choose_verbs_rails(b, a, most);
    ASSERT_FALSE(from_a.empty());
    ASSERT_LE(from_a.size(), most);
    for (VerbsRailChoice& rail : from_b) {
      std::swap(rail.port_a, rail.port_b);
      std::swap(rail.gids.a, rail.gids.b);
    }
    EXPECT_EQ(from_a, from_b) << "round " << round;
  }
}

TEST(VerbsRails, PortsOfOneSubnetGoTogetherWhateverTheirOrder) {
  const std::vector<VerbsPortInfo> a = {port("mlx5_0", ipv4(10, 0, 0, 1)), port("mlx5_1", ipv4(10, 0, 1, 1))};
  const std::vector<VerbsPortInfo> b = {port("mlx5_1", ipv4(10, 0, 1, 2)), port("mlx5_0", ipv4(10, 0, 0, 2))};
  const auto rails = choose_verbs_rails(a, b, 4);
  ASSERT_EQ(rails.size(), 2u);
  for (const VerbsRailChoice& rail : rails) EXPECT_EQ(a[rail.port_a].device, b[rail.port_b].device);
  // Hosts on different leaves of one routed fabric share no subnet and still reach each other.
  EXPECT_EQ(choose_verbs_rails({port("x", ipv4(10, 1, 0, 1))}, {port("x", ipv4(10, 2, 0, 1))}, 4).size(), 1u);
}

TEST(VerbsRails, SaysWhyThereAreNone) {
  std::string why;
  VerbsPortInfo infiniband = port("ib0", ipv4(10, 0, 0, 1));
  infiniband.ethernet = false;
  EXPECT_TRUE(choose_verbs_rails({port("x", ipv4(10, 0, 0, 1))}, {infiniband}, 4, &why).empty());
  EXPECT_NE(why.find("InfiniBand"), std::string::npos);
}

TEST(VerbsPorts, TheNearestToTheGpuComesFirstAndEqualsTakeTurns) {
  const auto candidate = [](const std::string& name, const std::string& path, std::vector<int> cores) {
    return VerbsCandidate{port(name, ipv4(10, 0, 0, 1)), {path, std::move(cores)}};
  };
  const std::vector<VerbsCandidate> four = {
      candidate("far", "/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0", {8, 9}),
      candidate("same_root", "/sys/devices/pci0000:00/0000:00:02.0/0000:02:00.0", {0, 1}),
      candidate("switch0", "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:03:00.0", {0, 1}),
      candidate("switch1", "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:04:00.0", {0, 1})};
  VerbsRankPlace rank;
  rank.gpu_pci_path = "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:05:00.0";
  rank.cores = {0, 1};
  auto ports = order_verbs_ports(four, rank);
  ASSERT_EQ(ports.size(), 2u);
  EXPECT_EQ(ports[0].device, "switch0");
  rank.local_rank = 1;
  EXPECT_EQ(order_verbs_ports(four, rank)[0].device, "switch1");
  rank.gpu_pci_path.clear();  // Without a GPU the NUMA node decides.
  rank.local_rank = 0;
  rank.cores = {9};
  ports = order_verbs_ports(four, rank);
  ASSERT_EQ(ports.size(), 1u);
  EXPECT_EQ(ports[0].device, "far");
}

TEST(VerbsPorts, SoftwareAndManagementPortsStandBack) {
  VerbsCandidate real{port("mlx5_0", ipv4(10, 0, 0, 1), 5e10), {}};
  VerbsCandidate slow{port("mgmt", ipv4(10, 0, 1, 1), 1e9), {}};
  VerbsCandidate software{port("rxe0", ipv4(10, 0, 2, 1), 5e10), {}};
  software.info.software = true;
  const auto ports = order_verbs_ports({software, slow, real}, {});
  ASSERT_EQ(ports.size(), 1u);
  EXPECT_EQ(ports[0].device, "mlx5_0");
  EXPECT_EQ(order_verbs_ports({software}, {}).size(), 1u);
}

TEST(VerbsPorts, TheFilterNamesDevicesAndPorts) {
  EXPECT_TRUE(verbs_filter_admits("", "mlx5_0", 1).value());
  EXPECT_TRUE(verbs_filter_admits("mlx5_0,mlx5_1:2", "mlx5_1", 2).value());
  EXPECT_FALSE(verbs_filter_admits("mlx5_0,mlx5_1:2", "mlx5_1", 1).value());
  EXPECT_FALSE(verbs_filter_admits("mlx5_0", "mlx5_10", 1).value());
  EXPECT_TRUE(verbs_filter_admits("!mlx5_2", "mlx5_0", 1).value());
  EXPECT_FALSE(verbs_filter_admits("!mlx5_2", "mlx5_2", 1).value());
  EXPECT_EQ(verbs_filter_admits("mlx5_0:x", "mlx5_0", 1).status().code(), StatusCode::invalid_argument);
  EXPECT_EQ(parse_core_list("0-2,8\n"), (std::vector<int>{0, 1, 2, 8}));
  EXPECT_EQ(parse_core_list("x,3-"), (std::vector<int>{}));
}

}  // namespace
}  // namespace trireme::test
