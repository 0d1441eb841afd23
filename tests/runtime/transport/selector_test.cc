#include "runtime/transport/selector.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

using Candidate = PathChoice::Candidate;

Candidate possible(std::string name, double bytes_per_second, double latency_us) {
  return {std::move(name), {true, bytes_per_second, latency_us, "works"}};
}
Candidate impossible(std::string name, std::string reason) {
  return {std::move(name), {false, 0, 0, std::move(reason)}};
}

TEST(Selector, TakesTheFastest) {
  const PathChoice choice = choose_path({possible("slow", 1e9, 1), possible("fast", 8e9, 5)}, "");
  EXPECT_EQ(choice.transport, "fast");
  EXPECT_NE(choice.reason.find("fastest"), std::string::npos) << choice.reason;
  EXPECT_EQ(choice.candidates.size(), 2u);
}

TEST(Selector, LatencyThenTableOrderBreakTies) {
  EXPECT_EQ(choose_path({possible("a", 1e9, 2), possible("b", 1e9, 1)}, "").transport, "b");
  EXPECT_EQ(choose_path({possible("a", 1e9, 1), possible("b", 1e9, 1)}, "").transport, "a");
}

TEST(Selector, LeavesOutTheImpossibleAndSaysWhyNothingIsLeft) {
  EXPECT_EQ(choose_path({impossible("a", "hosts differ"), possible("b", 1, 1)}, "").transport, "b");
  const PathChoice none = choose_path({impossible("a", "hosts differ"), impossible("b", "no address")}, "");
  EXPECT_EQ(none.transport, "");
  EXPECT_NE(none.reason.find("a: hosts differ"), std::string::npos) << none.reason;
  EXPECT_NE(none.reason.find("b: no address"), std::string::npos) << none.reason;
}

TEST(Selector, ForcedIsTakenOrExplained) {
  const std::vector<Candidate> table = {possible("shm", 8e9, 1), possible("tcp", 1e9, 30),
                                        impossible("verbs", "no device")};
  EXPECT_EQ(choose_path(table, "tcp").transport, "tcp");
  const PathChoice refused = choose_path(table, "verbs");
  EXPECT_EQ(refused.transport, "");
  EXPECT_NE(refused.reason.find("no device"), std::string::npos) << refused.reason;
  const PathChoice unknown = choose_path(table, "pigeon");
  EXPECT_EQ(unknown.transport, "");
  EXPECT_NE(unknown.reason.find("shm, tcp, verbs"), std::string::npos) << unknown.reason;
}

}  // namespace
}  // namespace trireme
