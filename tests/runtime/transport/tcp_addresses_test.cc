#include "runtime/transport/tcp/tcp_addresses.h"

#include <netinet/in.h>

#include <gtest/gtest.h>

namespace trireme {
namespace {

const std::vector<InterfaceAddress> kInterfaces = {
    {"docker0", "172.17.0.1", false}, {"eth0", "10.0.0.2", false}, {"eth0", "fe80::1%eth0", false},
    {"ib0", "192.168.7.2", false},    {"ib0", "fd00::2", false},   {"lo", "127.0.0.1", true},
};

std::string chosen(std::string_view filter, bool one_host) {
  const auto result = select_addresses(kInterfaces, filter, one_host);
  if (!result.is_ok()) return result.status().to_string();
  std::string text;
  for (const InterfaceAddress& entry : *result) text += (text.empty() ? "" : " ") + entry.address;
  return text;
}

TEST(TcpAddresses, LoopbackAloneOnOneHost) {
  EXPECT_EQ(chosen("", true), "127.0.0.1");
}

TEST(TcpAddresses, EverythingUsableAcrossHostsUnlikelyOnesLast) {
  EXPECT_EQ(chosen("", false), "10.0.0.2 192.168.7.2 fd00::2 172.17.0.1 fe80::1%eth0 127.0.0.1");
}

TEST(TcpAddresses, TheFilterNamesInterfacesAddressesAndNetworks) {
  EXPECT_EQ(chosen("ib0", false), "192.168.7.2 fd00::2");
  EXPECT_EQ(chosen("10.0.0.0/8", true), "10.0.0.2");
  EXPECT_EQ(chosen("fd00::/8,lo", false), "fd00::2 127.0.0.1");
  EXPECT_EQ(chosen("172.17.0.1", false), "172.17.0.1");
}

TEST(TcpAddresses, WhatFollowsAnExclamationMarkIsLeftOut) {
  EXPECT_EQ(chosen("!docker0,!fe80::/10", false), "10.0.0.2 192.168.7.2 fd00::2 127.0.0.1");
  EXPECT_EQ(chosen("ib0,!fd00::/8", false), "192.168.7.2");
  EXPECT_EQ(chosen("eth0,!10.0.0.2", false), "fe80::1%eth0");
  EXPECT_EQ(chosen("!eth0", true), "127.0.0.1");
}

TEST(TcpAddresses, WithoutLoopbackOneHostUsesWhatThereIs) {
  const auto result = select_addresses({{"eth0", "10.0.0.2", false}}, "", true);
  ASSERT_TRUE(result.is_ok());
  EXPECT_EQ(result->front().address, "10.0.0.2");
}

TEST(TcpAddresses, AFilterThatMatchesNothingIsAnError) {
  const auto result = select_addresses(kInterfaces, "ib1", false);
  ASSERT_FALSE(result.is_ok());
  EXPECT_EQ(result.status().code(), StatusCode::invalid_argument);
  EXPECT_NE(result.status().message().find("TRIREME_INTERFACE=ib1"), std::string::npos);
  EXPECT_NE(result.status().message().find("eth0 10.0.0.2"), std::string::npos);
}

TEST(TcpAddresses, Cidr) {
  EXPECT_TRUE(cidr_contains("10.0.0.0/8", "10.255.1.2"));
  EXPECT_FALSE(cidr_contains("10.0.0.0/8", "11.0.0.0"));
  EXPECT_TRUE(cidr_contains("10.1.2.128/25", "10.1.2.200"));
  EXPECT_FALSE(cidr_contains("10.1.2.128/25", "10.1.2.100"));
  EXPECT_TRUE(cidr_contains("0.0.0.0/0", "1.2.3.4"));
  EXPECT_TRUE(cidr_contains("fe80::/10", "febf::1"));
  EXPECT_FALSE(cidr_contains("fe80::/10", "fec0::1"));
  for (const char* bad : {"10.0.0.0/33", "10.0.0.0/", "10.0.0.0/x", "10.0.0/8", "", "/8", "eth0"}) {
    EXPECT_FALSE(cidr_contains(bad, "10.0.0.1")) << bad;
  }
}

TEST(TcpAddresses, NumericAddresses) {
  const auto v4 = numeric_address("10.0.0.2:4711");
  ASSERT_TRUE(v4.is_ok()) << v4.status().to_string();
  EXPECT_EQ(v4->storage.ss_family, AF_INET);
  EXPECT_EQ(ntohs(reinterpret_cast<const sockaddr_in*>(&v4->storage)->sin_port), 4711);
  const auto v6 = numeric_address("[fd00::2]:80");
  ASSERT_TRUE(v6.is_ok()) << v6.status().to_string();
  EXPECT_EQ(v6->storage.ss_family, AF_INET6);
  const auto scoped = numeric_address("[fe80::2%lo]:80");
  ASSERT_TRUE(scoped.is_ok()) << scoped.status().to_string();
  EXPECT_NE(reinterpret_cast<const sockaddr_in6*>(&scoped->storage)->sin6_scope_id, 0u);
  EXPECT_EQ(host_text(scoped->storage), "fe80::2%lo");
  EXPECT_EQ(host_text(v4->storage), "10.0.0.2");
  EXPECT_EQ(host_text(numeric_address("[::ffff:10.0.0.2]:80")->storage), "10.0.0.2");
  for (const char* bad : {"unix:@trireme", "localhost:80", "10.0.0.2", "10.0.0.2%lo:80", "", "[fd00::2]"}) {
    EXPECT_FALSE(numeric_address(bad).is_ok()) << bad;
  }
}

}  // namespace
}  // namespace trireme
