// The control plane after a death: whoever waits in vain is told of the death, not of the
// absence that follows from it.
#include "tests/regressions/regression_test.h"
#include "tests/runtime/rendezvous/store_harness.h"

namespace trireme::store {
namespace {

std::string encode_text(std::string_view text) {
  WireWriter writer;
  writer.bytes(text);
  return writer.take();
}

std::string encode_exchange(std::string_view name, const std::vector<std::uint32_t>& members) {
  WireWriter writer;
  writer.bytes(name);
  writer.u32(static_cast<std::uint32_t>(members.size()));
  for (const std::uint32_t member : members) writer.u32(member);
  writer.bytes("");
  return writer.take();
}

// What rank 0 asks before or after the death, and after another rank has left in order.
class AfterADeath : public ::testing::TestWithParam<bool> {};

TEST_P(AfterADeath, WaitsInVainAreToldOfIt) {
  const bool asks_before = GetParam();
  StoreHarness store(3);
  std::vector<ConnectionId> members;
  for (int rank = 0; rank < 3; ++rank) members.push_back(store.join(rank));
  const auto ask = [&] {
    store.send(members[0], MessageType::get, 1, encode_text("k"));
    store.send(members[0], MessageType::exchange, 2, encode_exchange("with the dead", {0, 1}));
    store.send(members[0], MessageType::exchange, 3, encode_exchange("with the departed", {0, 2}));
  };
  if (asks_before) ask();
  store.announce_death(1, "signal 9 (SIGKILL)");
  store.send(members[2], MessageType::leave, 9, {});
  if (!asks_before) ask();
  for (const std::uint64_t request : {1, 2, 3}) {
    EXPECT_EQ(store.reply(members[0], request).status().to_string(),
              "peer_dead: rank 1 (host, pid 1001) died: signal 9 (SIGKILL)")
        << "request " << request;
  }
}
INSTANTIATE_TEST_SUITE_P(Asked, AfterADeath, ::testing::Bool());

}  // namespace
}  // namespace trireme::store

namespace trireme::testing {
namespace {

using ControlPlane = RegressionTest;

TEST_F(ControlPlane, WaitsForADeadRankNameIt) {
  const RunResult result = trireme(job({"-n", "2", "--grace", "5"}, {"lost_while_getting"}));
  for (const char* what : {"get: ", "exchange: "}) {
    const std::vector<std::string> told = lines_with(result, what);
    ASSERT_EQ(told.size(), 1U) << result.out << result.err;
    EXPECT_NE(told[0].find("peer_dead: rank 1 ("), std::string::npos) << told[0];
    EXPECT_NE(told[0].find("died: signal 9 (SIGKILL)"), std::string::npos) << told[0];
  }
}

}  // namespace
}  // namespace trireme::testing
