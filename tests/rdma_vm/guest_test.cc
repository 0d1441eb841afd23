// Faults of real devices, in a guest that has some to spare (see rdma_vm).
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "runtime/transport/table/api/transport_table.h"
#include "tests/contract/support.h"

namespace trireme::test {
namespace {

const TransportFactory& verbs() {
  for (const TransportFactory& factory : transport_table()) {
    if (factory.name == "verbs") return factory;
  }
  std::abort();
}

class Guest : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = why_not_here(verbs()); !reason.empty()) {
      GTEST_SKIP() << "needs RDMA devices: run it by tests/rdma_vm/rdma_vm. " << reason;
    }
  }
  static void shell(const std::string& command) { ASSERT_EQ(std::system(command.c_str()), 0) << command; }
  // One byte each way, so that the channel is connected.
  static void greet(LocalFabrics& ranks, Channel& a, Channel& b) {
    std::byte byte{7};
    Channel* channels[] = {&a, &b};
    on_threads(2, [&](int r) {
      std::byte got{};
      const Status status =
          exchange_all(ranks.rank(r).doorbell(), *channels[r], std::span(&byte, 1), std::span(&got, 1));
      EXPECT_TRUE(status.is_ok()) << status.to_string();
    });
  }
};

TEST_F(Guest, APortThatGoesDownIsNamedWithThePeer) {
  setenv("TRIREME_VERBS_DEVICES", "rxe1", 1);
  LocalFabrics ranks(2, verbs(), 64 * 1024);
  unsetenv("TRIREME_VERBS_DEVICES");
  auto a = ranks.open(0, 1, 1);
  auto b = ranks.open(1, 0, 1);
  greet(ranks, *a, *b);
  shell("ip link set dev dummy1 down");
  std::byte byte{};
  const Status status = receive_all(ranks.rank(0).doorbell(), *a, std::span(&byte, 1));
  shell("ip link set dev dummy1 up");
  EXPECT_EQ(status.code(), StatusCode::unavailable) << status.to_string();
  for (const char* part : {"rank 1 (", "rxe1", "port 1"}) {
    EXPECT_NE(status.message().find(part), std::string::npos) << part << " in " << status.to_string();
  }
}

}  // namespace
}  // namespace trireme::test
