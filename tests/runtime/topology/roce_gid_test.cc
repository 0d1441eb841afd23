#include <trireme/topology/roce_gid.h>

#include <gtest/gtest.h>

#include <vector>

namespace trireme {
namespace {

using Type = GidEntry::Type;

GidEntry entry(int index, const std::string& gid, Type type) {
  GidEntry made;
  made.index = index;
  made.gid = parse_gid(gid).value();
  made.type = type;
  return made;
}

constexpr const char* kLinkLocal = "fe80:0000:0000:0000:ba3f:d2ff:fe01:0203";
constexpr const char* kMapped = "0000:0000:0000:0000:0000:ffff:0a01:0207";
constexpr const char* kOtherMapped = "0000:0000:0000:0000:0000:ffff:c0a8:0001";
constexpr const char* kGlobal = "2001:0db8:0000:0001:0000:0000:0000:0007";
constexpr const char* kUniqueLocal = "fd00:0000:0000:0001:0000:0000:0000:0007";
constexpr const char* kEmpty = "0000:0000:0000:0000:0000:0000:0000:0000";

// What a port of an mlx5 device shows: link-local first, as v1 and v2, then IPv4.
std::vector<GidEntry> usual_table() {
  return {entry(0, kLinkLocal, Type::roce_v1), entry(1, kLinkLocal, Type::roce_v2), entry(2, kMapped, Type::roce_v1),
          entry(3, kMapped, Type::roce_v2), entry(4, kEmpty, Type::roce_v2)};
}

TEST(RoceGid, TakesTheRoutableVersion2Entry) {
  const Result<GidEntry> chosen = choose_gid(usual_table());
  ASSERT_TRUE(chosen.is_ok()) << chosen.status().to_string();
  EXPECT_EQ(chosen->index, 3);
  EXPECT_EQ(gid_to_string(chosen->gid), "10.1.2.7");
}

TEST(RoceGid, PrefersIpv4ThenGlobalThenUniqueLocal) {
  std::vector<GidEntry> table = {entry(0, kUniqueLocal, Type::roce_v2), entry(1, kGlobal, Type::roce_v2),
                                 entry(2, kMapped, Type::roce_v2)};
  EXPECT_EQ(choose_gid(table)->index, 2);
  table.pop_back();
  EXPECT_EQ(choose_gid(table)->index, 1);
  table.pop_back();
  EXPECT_EQ(choose_gid(table)->index, 0);
}

TEST(RoceGid, InfiniBandUsesItsOwn) {
  EXPECT_EQ(choose_gid(std::vector{entry(0, kLinkLocal, Type::infiniband)})->index, 0);
}

TEST(RoceGid, SaysWhyNothingIsUsable) {
  const std::vector<GidEntry> table = {entry(0, kLinkLocal, Type::roce_v2), entry(1, kMapped, Type::roce_v1),
                                       entry(2, kEmpty, Type::roce_v2)};
  const Result<GidEntry> chosen = choose_gid(table);
  ASSERT_FALSE(chosen.is_ok());
  const std::string& message = chosen.status().message();
  EXPECT_NE(message.find("index 0 (fe80:0:0:0:ba3f:d2ff:fe01:203): link-local"), std::string::npos) << message;
  EXPECT_NE(message.find("index 1 (10.1.2.7): RoCE v1"), std::string::npos) << message;
  EXPECT_NE(message.find("index 2 (0:0:0:0:0:0:0:0): empty"), std::string::npos) << message;
  EXPECT_NE(choose_gid({}).status().message().find("the table is empty"), std::string::npos);
}

TEST(RoceGid, FollowsThePeersKindAndSubnet) {
  const std::vector<GidEntry> table = {entry(0, kGlobal, Type::roce_v2), entry(1, kOtherMapped, Type::roce_v2),
                                       entry(2, kMapped, Type::roce_v2)};
  EXPECT_EQ(choose_gid_towards(table, entry(9, "0000:0000:0000:0000:0000:ffff:0a01:02fe", Type::roce_v2))->index, 2);
  EXPECT_EQ(choose_gid_towards(table, entry(9, "0000:0000:0000:0000:0000:ffff:0b01:02fe", Type::roce_v2))->index, 1);
  EXPECT_EQ(choose_gid_towards(table, entry(9, "2001:0db8:0000:0009:0000:0000:0000:0001", Type::roce_v2))->index, 0);
  EXPECT_FALSE(choose_gid_towards(table, entry(9, kLinkLocal, Type::infiniband)).is_ok());
}

TEST(RoceGid, RefusesWhatIsNoGid) {
  for (const char* text : {"", "fe80::1", "0000:0000:0000:0000:0000:0000:0000:000g",
                           "0000:0000:0000:0000:0000:0000:0000-0000", "0000:0000:0000:0000:0000:0000:0000:00000"}) {
    EXPECT_FALSE(parse_gid(text).is_ok()) << text;
  }
}

}  // namespace
}  // namespace trireme
