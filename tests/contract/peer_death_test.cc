// The death of a process, seen by the ranks that talk to it; and what is left behind.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include <gtest/gtest.h>

#include "runtime/platform/api/files.h"
#include "runtime/platform/api/process.h"
#include "runtime/rendezvous/api/store_server.h"
#include "tests/contract/support.h"

extern char** environ;

namespace trireme::test {
namespace {

struct RankProcess {
  ChildProcess process;
  UniqueFd output;

  // Reads until `text` has come or the output ends.
  std::string read_until(std::string_view text) {
    std::string all;
    char buffer[256];
    while (all.find(text) == std::string::npos) {
      const ssize_t got = read(output.get(), buffer, sizeof buffer);
      if (got <= 0) break;
      all.append(buffer, static_cast<std::size_t>(got));
    }
    return all;
  }
};

RankProcess start_rank(std::string_view transport, int rank, int size, const StoreServer& store) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {};
  SpawnOptions options;
  options.program = std::string(TRIREME_BINARY_DIR) + "/tests/test_contract_rank";
  options.arguments = {std::string(transport), std::to_string(rank), std::to_string(size), store.address(), "secret"};
  for (char** variable = environ; *variable != nullptr; ++variable) options.environment.emplace_back(*variable);
  options.stdout_fd = ends[1];
  auto child = ChildProcess::spawn(options);
  close(ends[1]);
  EXPECT_TRUE(child.is_ok()) << child.status().to_string();
  return {child.is_ok() ? std::move(child).value() : ChildProcess(), UniqueFd(ends[0])};
}

class PeerDeath : public testing::TestWithParam<TransportFactory> {
 protected:
  void SetUp() override {
    if (const std::string reason = why_not_here(GetParam()); !reason.empty()) GTEST_SKIP() << reason;
  }
};

TEST_P(PeerDeath, AKilledProcessIsNamedAndLeavesNothing) {
  constexpr int kRanks = 3;
  const auto before = list_directory("/dev/shm");
  StoreServerOptions options;
  options.job_id = "contract";
  options.secret = "secret";
  options.world_size = kRanks;
  auto store = StoreServer::start(options);
  ASSERT_TRUE(store.is_ok()) << store.status().to_string();
  std::vector<RankProcess> ranks;
  for (int r = 0; r < kRanks; ++r) ranks.push_back(start_rank(GetParam().name, r, kRanks, **store));
  for (RankProcess& rank : ranks) {
    const std::string output = rank.read_until("ready");
    ASSERT_NE(output.find("ready"), std::string::npos) << output;
  }
  ASSERT_TRUE(ranks[1].process.send_signal(SIGKILL).is_ok());
  for (RankProcess& rank : ranks) {
    const std::string rest = rank.read_until("\x01");  // To the end.
    const auto exit = rank.process.wait(Deadline::after_ms(kPatienceMs));
    ASSERT_TRUE(exit.is_ok()) << exit.status().to_string();
    EXPECT_TRUE(exit->signaled ? exit->signal == SIGKILL && &rank == &ranks[1] : exit->code == 0)
        << exit->to_string() << ": " << rest;
  }
  const auto after = list_directory("/dev/shm");
  if (before.is_ok() && after.is_ok()) {
    EXPECT_EQ(*after, *before);
  }
}

INSTANTIATE_TEST_SUITE_P(Table, PeerDeath,
                         testing::ValuesIn(contract_transports().begin(), contract_transports().end()),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace trireme::test
