#include "runtime/rendezvous/slurm.h"
#include "runtime/rendezvous/slurm_node.h"

#include <set>

#include <gtest/gtest.h>

namespace trireme::store {
namespace {

using Names = std::vector<std::string>;

TEST(Slurm, ExpandsNodeLists) {
  EXPECT_EQ(*expand_nodelist("node1"), Names({"node1"}));
  EXPECT_EQ(*expand_nodelist("a,b-2,c.example"), Names({"a", "b-2", "c.example"}));
  EXPECT_EQ(*expand_nodelist("node[01-03,7],login1"), Names({"node01", "node02", "node03", "node7", "login1"}));
  EXPECT_EQ(*expand_nodelist("n[098-101]"), Names({"n098", "n099", "n100", "n101"}));
  EXPECT_EQ(*expand_nodelist("r[1-2]n[8-9]x"), Names({"r1n8x", "r1n9x", "r2n8x", "r2n9x"}));
  EXPECT_EQ(expand_nodelist("node[1-16]")->size(), 16u);
  EXPECT_EQ(expand_nodelist("node[0-65535]")->back(), "node65535");
}

TEST(Slurm, FindsTheAddressInADescription) {
  EXPECT_EQ(node_address_in("NodeName=n1 Arch=x86_64 NodeAddr=10.1.2.3 NodeHostName=vm Port=17001"), "10.1.2.3");
  EXPECT_EQ(node_address_in("NodeName=n1\n   NodeAddr=fe80::1\n"), "fe80::1");
  EXPECT_EQ(node_address_in("NodeAddr=last"), "last");
  EXPECT_EQ(node_address_in("NodeName=n1 Comment=NodeAddr NotNodeAddr=x"), "");
  EXPECT_EQ(node_address_in("Node n1 not found\n"), "");
  EXPECT_EQ(node_address_in(""), "");
}

TEST(Slurm, RefusesWhatItDoesNotUnderstand) {
  for (const char* text :
       {"", ",", "a,", ",a", "a,,b", "n[", "n]", "n[]", "n[1-]", "n[-1]", "n[2-1]", "n[1,]", "n[a-b]", "n[[1]]",
        "n[1]]", "n[0-65536]", "n[1-99999999999999999999]", "n[1-256]m[1-257]"}) {
    const auto names = expand_nodelist(text);
    ASSERT_FALSE(names.is_ok()) << text;
    EXPECT_EQ(names.status().code(), StatusCode::invalid_argument) << text;
    EXPECT_NE(names.status().message().find("node list"), std::string::npos);
  }
}

TEST(Slurm, PortsAreStableAndInTheDocumentedRange) {
  std::set<int> firsts;
  for (int job = 0; job < 1000; ++job) {
    const auto ports = candidate_ports("slurm-" + std::to_string(job) + ".0");
    ASSERT_EQ(ports.size(), static_cast<std::size_t>(kPortCandidates));
    EXPECT_GE(ports.front(), kFirstPort);
    EXPECT_LT(ports.back(), kFirstPort + kPortRange + kPortCandidates);
    firsts.insert(ports.front());
    EXPECT_EQ(ports, candidate_ports("slurm-" + std::to_string(job) + ".0"));
  }
  EXPECT_GT(firsts.size(), 900u);  // Jobs of one host rarely share a port.
}

}  // namespace
}  // namespace trireme::store
