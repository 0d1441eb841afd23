#include "runtime/transport/tcp/tcp_candidates.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "runtime/transport/tcp/tcp_stream.h"

namespace trireme {
namespace {

const std::vector<InterfaceAddress> kLocal = {{"eth0", "10.0.0.1", false, 10'000},
                                              {"docker0", "172.17.0.1", false, 0},
                                              {"eth0", "fe80::1%eth0", false, 10'000},
                                              {"ib0", "fe80::9%ib0", false, 0},
                                              {"lo", "127.0.0.1", true, 0}};

std::string order(const TcpEndpoint& peer, const std::string& scope, std::string* excluded = nullptr) {
  std::vector<std::string> left_out;
  std::string text;
  for (const TcpCandidate& candidate : tcp_candidates(peer, scope, kLocal, left_out)) {
    text += (text.empty() ? "" : " ") + candidate.address;
  }
  for (const std::string& line : left_out) {
    if (excluded != nullptr) *excluded += line;
  }
  return text;
}

TcpEndpoint peer_with(std::vector<TcpEndpoint::Address> addresses) {
  return {std::string(32, 't'), "boot/net:[2]", 0, std::move(addresses)};
}

TEST(TcpCandidates, FastNetworksFirstBridgesLastTheSharedBridgeNotAtAll) {
  const TcpEndpoint peer = peer_with({{"10.1.0.2:7", "dummy0", 0, false},
                                      {"10.0.0.2:7", "eth0", 10'000, false},
                                      {"192.168.1.2:7", "ib0", 100'000, false},
                                      {"172.18.0.1:7", "br-77", 0, false},
                                      {"172.17.0.1:7", "docker0", 0, false},
                                      {"[fe80::2]:7", "eth0", 10'000, false},
                                      {"127.0.0.1:7", "lo", 0, true}});
  std::string excluded;
  EXPECT_EQ(order(peer, "boot/net:[1]", &excluded), "192.168.1.2:7 10.0.0.2:7 10.1.0.2:7 172.18.0.1:7");
  EXPECT_EQ(excluded, "172.17.0.1:7 (docker0): this host has that address too");
  EXPECT_EQ(order(peer, "boot/net:[2]").substr(0, 11), "127.0.0.1:7");
}

TEST(TcpCandidates, LinkLocalAddressesOnlyWhenNothingElseIsLeftAndFromEveryInterface) {
  const TcpEndpoint peer = peer_with({{"[fe80::2]:7", "eth0", 0, false}, {"127.0.0.1:7", "lo", 0, true}});
  EXPECT_EQ(order(peer, "boot/net:[1]"), "[fe80::2%eth0]:7 [fe80::2%ib0]:7");
}

TEST(TcpCandidates, MeetingNeedsAddressesOfOneKindAndIsSymmetric) {
  const TcpEndpoint v4 = peer_with({{"10.0.0.2:7", "eth0", 0, false}});
  const TcpEndpoint v6 = peer_with({{"[fd00::2]:7", "eth0", 0, false}});
  const TcpEndpoint both = peer_with({{"[fd00::3]:7", "eth0", 0, false}, {"10.0.0.3:7", "eth0", 0, false}});
  TcpEndpoint loopback = peer_with({{"127.0.0.1:7", "lo", 0, true}});
  const TcpEndpoint neighbour = loopback;
  EXPECT_TRUE(may_meet(loopback, neighbour));
  loopback.network_scope = "elsewhere/net:[1]";
  EXPECT_FALSE(may_meet(loopback, neighbour));
  EXPECT_FALSE(may_meet(v4, v6));
  EXPECT_FALSE(may_meet(v6, v4));
  for (const TcpEndpoint* one : {&v4, &v6}) {
    EXPECT_TRUE(may_meet(*one, both));
    EXPECT_TRUE(may_meet(both, *one));
  }
}

TEST(TcpStreams, TheirNumberFollowsSpeedAndDistance) {
  EXPECT_EQ(tcp_stream_count(100'000, 50, true), 1u);  // One machine.
  EXPECT_EQ(tcp_stream_count(0, 50, false), 1u);       // Unknown.
  EXPECT_EQ(tcp_stream_count(1'000, 100, false), 1u);  // Gigabit.
  EXPECT_EQ(tcp_stream_count(10'000, 50, false), 1u);
  EXPECT_EQ(tcp_stream_count(100'000, 50, false), 8u);
  EXPECT_EQ(tcp_stream_count(25'000, 50, false), 2u);
  EXPECT_EQ(tcp_stream_count(10'000, 10'000, false), 4u);  // 12.5 MB under way, 3 MiB a window.
}

TEST(TcpStreams, EveryByteOfAStripedStreamHasOnePlaceAndBlocksTakeTurns) {
  for (unsigned streams : {1u, 2u, 3u, 16u}) {
    std::uint64_t position = 0;
    std::vector<std::uint64_t> bytes(streams);
    while (position < (std::uint64_t{64} << 20)) {
      const StripePlace place = stripe_place(position, streams);
      ASSERT_LT(place.stream, streams);
      ASSERT_GT(place.left, 0u);
      const std::uint64_t step = std::min<std::uint64_t>(place.left, 100'003);
      ASSERT_EQ(stripe_place(position + step - 1, streams).stream, place.stream);
      bytes[place.stream] += step;
      position += step;
    }
    for (std::uint64_t share : bytes) EXPECT_NEAR(static_cast<double>(share), 64e6 / streams, 5e6);
  }
}

}  // namespace
}  // namespace trireme
