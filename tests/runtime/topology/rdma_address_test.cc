#include "runtime/topology/api/rdma_address.h"

#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace trireme::test {
namespace {

RdmaGid gid(std::array<std::uint8_t, 16> bytes, GidType type, std::uint32_t index) {
  return {bytes, type, index};
}
RdmaGid ipv4(std::uint8_t c, std::uint8_t d, std::uint32_t index, GidType type = GidType::roce_v2) {
  return gid({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, c, d}, type, index);
}
RdmaGid link_local(std::uint32_t index, GidType type = GidType::roce_v2, std::uint8_t last = 1) {
  return gid({0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0xff, 0xfe, 0, 0, last}, type, index);
}
RdmaGid global_ipv6(std::uint32_t index, std::uint8_t last) {
  return gid({0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last}, GidType::roce_v2, index);
}

TEST(RdmaAddress, KnowsTheKindsOfAddresses) {
  EXPECT_EQ(gid_scope(ipv4(0, 1, 0)), GidScope::ipv4);
  EXPECT_EQ(gid_scope(link_local(0)), GidScope::link_local);
  EXPECT_EQ(gid_scope(global_ipv6(0, 1)), GidScope::ipv6_global);
  EXPECT_EQ(gid_scope(gid({0xfd, 1}, GidType::roce_v2, 0)), GidScope::ipv6_unique_local);
  EXPECT_EQ(gid_scope(RdmaGid{}), GidScope::none);
  EXPECT_EQ(gid_scope(gid({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 169, 254, 3, 4}, GidType::roce_v2, 0)),
            GidScope::link_local);
}

TEST(RdmaAddress, RoutableVersionTwoBeatsWhatComesFirstInTheTable) {
  // The order of a typical table: link-local v1, link-local v2, IPv4 v1, IPv4 v2.
  const std::vector<RdmaGid> a = {link_local(0, GidType::roce_v1), link_local(1), ipv4(0, 1, 2, GidType::roce_v1),
                                  ipv4(0, 1, 3)};
  const std::vector<RdmaGid> b = {link_local(0, GidType::roce_v1, 2), link_local(1, GidType::roce_v2, 2),
                                  ipv4(0, 2, 4, GidType::roce_v1), ipv4(0, 2, 5)};
  EXPECT_EQ(choose_gids(a, b), (GidPair{3, 3}));
}

TEST(RdmaAddress, TakesWhatBothEndsHave) {
  const std::vector<RdmaGid> dual = {link_local(0), ipv4(0, 1, 1), global_ipv6(2, 1)};
  const std::vector<RdmaGid> ipv6_only = {link_local(0, GidType::roce_v2, 9), global_ipv6(1, 2)};
  EXPECT_EQ(choose_gids(dual, ipv6_only), (GidPair{2, 1}));
  const std::vector<RdmaGid> bare = {link_local(0, GidType::roce_v2, 7)};
  EXPECT_EQ(choose_gids(dual, bare), (GidPair{0, 0}));  // One switch, no addresses: better than nothing.
  const std::vector<RdmaGid> only_v1 = {ipv4(0, 3, 0, GidType::roce_v1)};
  EXPECT_EQ(choose_gids(dual, only_v1), std::nullopt);
}

TEST(RdmaAddress, OfSeveralSubnetsTheCommonOne) {
  const std::vector<RdmaGid> a = {ipv4(1, 1, 1), ipv4(2, 1, 3), ipv4(3, 1, 5)};
  const std::vector<RdmaGid> b = {ipv4(9, 2, 1), ipv4(2, 2, 7)};
  EXPECT_EQ(choose_gids(a, b), (GidPair{1, 1}));
}

TEST(RdmaAddress, TheChoiceIsTheSameFromBothSides) {
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    std::vector<RdmaGid> tables[2];
    for (auto& table : tables) {
      for (std::uint32_t i = 0, count = 1 + random() % 5; i < count; ++i) {
        const auto low = static_cast<std::uint8_t>(random() % 3);
        switch (random() % 4) {
          case 0:
            table.push_back(link_local(i, random() % 2 ? GidType::roce_v1 : GidType::roce_v2, low));
            break;
          case 1:
            table.push_back(global_ipv6(i, low));
            break;
          default:
            table.push_back(
                ipv4(low, static_cast<std::uint8_t>(random()), i, random() % 2 ? GidType::roce_v1 : GidType::roce_v2));
        }
      }
    }
    const auto there = choose_gids(tables[0], tables[1]);
    const auto back = choose_gids(tables[1], tables[0]);
    ASSERT_EQ(there.has_value(), back.has_value());
    if (!there) continue;
    EXPECT_EQ(tables[0][there->a].bytes, tables[0][back->b].bytes) << "round " << round;
    EXPECT_EQ(tables[1][there->b].bytes, tables[1][back->a].bytes) << "round " << round;
  }
}

TEST(RdmaAddress, LinkSpeedsAreThoseOfTheDataSheets) {
  EXPECT_EQ(rdma_link_bytes_per_second(2, 4), 4e9);      // 4x QDR: 32 Gb/s of payload.
  EXPECT_EQ(rdma_link_bytes_per_second(2, 32), 12.5e9);  // 4x EDR: 100 Gb/s.
  EXPECT_EQ(rdma_link_bytes_per_second(2, 128), 50e9);   // 4x NDR: 400 Gb/s.
  EXPECT_EQ(rdma_link_bytes_per_second(3, 4), 0);
}

TEST(RdmaAddress, CountsTheStepsBetweenPciDevices) {
  const std::string nic = "/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0/0000:82:00.0";
  EXPECT_EQ(pci_steps(nic, nic), 0);
  EXPECT_EQ(pci_steps(nic, "/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0/0000:83:00.0"), 2);
  EXPECT_EQ(pci_steps(nic, "/sys/devices/pci0000:80/0000:80:02.0/0000:90:00.0"), 5);
  EXPECT_EQ(pci_steps(nic, "/sys/devices/pci0000:00/0000:00:02.0"), std::nullopt);
  EXPECT_EQ(pci_steps(nic, "/sys/devices/virtual/infiniband/rxe0"), std::nullopt);
  EXPECT_EQ(pci_steps("", ""), std::nullopt);
}

}  // namespace
}  // namespace trireme::test
