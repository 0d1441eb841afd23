// Ranks as real processes: one is stopped, killed or confused, and the others must say
// which, in the same words.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "runtime/platform/api/files.h"
#include "runtime/platform/api/process.h"
#include "runtime/rendezvous/api/store_server.h"

extern char** environ;

namespace trireme {
namespace {

constexpr int kRanks = 4;
constexpr int kPatienceMs = 100'000;

struct RankProcess {
  ChildProcess process;
  UniqueFd output;
  std::string text;

  // Reads until `what` has come, or to the end. True when it has.
  bool read_until(std::string_view what) {
    char buffer[512];
    while (what.empty() || text.find(what) == std::string::npos) {
      const ssize_t got = read(output.get(), buffer, sizeof buffer);
      if (got <= 0) return false;
      text.append(buffer, static_cast<std::size_t>(got));
    }
    return true;
  }
  void read_all() { read_until(""); }
  // The Status it printed.
  std::string status() const {
    const std::size_t at = text.find("after ");
    if (at == std::string::npos) return "nothing: " + text;
    const std::size_t colon = text.find(": ", at);
    return text.substr(colon + 2, text.find('\n', colon) - colon - 2);
  }
};

class Job {
 public:
  Job(int ranks, const std::string& mode, int timeout_ms) {
    StoreServerOptions options;
    options.job_id = "multi_process";
    options.secret = "secret";
    options.world_size = ranks;
    auto server = StoreServer::start(options);
    EXPECT_TRUE(server.is_ok()) << server.status().to_string();
    store_ = std::move(server).value();
    for (int rank = 0; rank < ranks; ++rank) start(rank, ranks, mode, timeout_ms);
  }
  ~Job() {
    for (RankProcess& rank : ranks_) (void)rank.process.send_signal(SIGKILL);
    for (RankProcess& rank : ranks_) (void)rank.process.wait(Deadline::after_ms(kPatienceMs));
  }

  RankProcess& rank(int r) { return ranks_[static_cast<std::size_t>(r)]; }
  void wait_until_ready() {
    for (RankProcess& rank : ranks_) ASSERT_TRUE(rank.read_until("ready")) << rank.text;
  }
  // Every rank but `lost` ends with one and the same Status, which says all `parts`.
  void expect_all_say(int lost, const std::vector<std::string>& parts) {
    std::set<std::string> stories;
    for (int r = 0; r < static_cast<int>(ranks_.size()); ++r) {
      if (r == lost) continue;
      rank(r).read_all();
      const auto exit = rank(r).process.wait(Deadline::after_ms(kPatienceMs));
      ASSERT_TRUE(exit.is_ok()) << exit.status().to_string();
      EXPECT_EQ(exit.value().shell_code(), 1) << exit.value().to_string() << " " << rank(r).text;
      for (const std::string& part : parts) {
        EXPECT_NE(rank(r).status().find(part), std::string::npos) << "rank " << r << ": " << rank(r).text;
      }
      stories.insert(rank(r).status());
    }
    EXPECT_EQ(stories.size(), 1u) << *stories.begin() << "\n" << *stories.rbegin();
  }
  std::string pid_text(int r) { return "pid " + std::to_string(rank(r).process.pid()); }

 private:
  void start(int rank, int ranks, const std::string& mode, int timeout_ms) {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    SpawnOptions options;
    options.program = std::string(TRIREME_BINARY_DIR) + "/tests/test_multi_process_rank";
    options.arguments = {std::to_string(rank), std::to_string(ranks), store_->address(), mode,
                         std::to_string(timeout_ms)};
    for (char** variable = environ; *variable != nullptr; ++variable) options.environment.emplace_back(*variable);
    options.stdout_fd = ends[1];
    auto child = ChildProcess::spawn(options);
    close(ends[1]);
    ASSERT_TRUE(child.is_ok()) << child.status().to_string();
    ranks_.push_back({std::move(child).value(), UniqueFd(ends[0]), ""});
  }

  std::unique_ptr<StoreServer> store_;
  std::vector<RankProcess> ranks_;
};

TEST(MultiProcess, AStoppedRankIsNamedAtTheDeadline) {
  Job job(kRanks, "run", 1500);
  job.wait_until_ready();
  ASSERT_TRUE(job.rank(2).process.send_signal(SIGSTOP).is_ok());
  job.expect_all_say(2, {"deadline_exceeded: all_reduce(count=20000, f32, max)", "stood still for 1500 ms", "rank 2 (",
                         job.pid_text(2), "does not answer"});
}

TEST(MultiProcess, AKilledRankIsNamedAtOnce) {
  Job job(kRanks, "run", 60'000);
  job.wait_until_ready();
  ASSERT_TRUE(job.rank(1).process.send_signal(SIGKILL).is_ok());
  job.expect_all_say(1, {"peer_dead", "rank 1 (", job.pid_text(1)});
}

TEST(MultiProcess, ADifferentCallIsShownWithBothSides) {
  Job job(kRanks, "differ", 60'000);
  job.expect_all_say(-1, {"mismatch", "calls all_reduce(count=20000, f32, max) as its 52nd call", job.pid_text(1),
                          "calls broadcast(count=20000, f32, root=0) as its 52nd call"});
}

TEST(MultiProcess, CommunicatorsComeAndGo) {
  const auto before = list_directory("/dev/shm");
  {
    Job job(3, "renew", 60'000);
    for (int r = 0; r < 3; ++r) {
      job.rank(r).read_all();
      const auto exit = job.rank(r).process.wait(Deadline::after_ms(kPatienceMs));
      ASSERT_TRUE(exit.is_ok());
      EXPECT_EQ(exit.value().shell_code(), 0) << job.rank(r).text;
    }
  }
  const auto after = list_directory("/dev/shm");
  if (before.is_ok() && after.is_ok()) {
    EXPECT_EQ(before.value(), after.value());
  }
}

TEST(MultiProcess, SurvivorsGoOnWithoutTheDead) {
  Job job(kRanks, "shrink", 60'000);
  for (int r = 0; r < kRanks; ++r) ASSERT_TRUE(job.rank(r).read_until("4 go on")) << job.rank(r).text;
  ASSERT_TRUE(job.rank(1).process.send_signal(SIGKILL).is_ok());
  for (int r : {0, 2, 3}) ASSERT_TRUE(job.rank(r).read_until("3 go on")) << job.rank(r).text;
  ASSERT_TRUE(job.rank(3).process.send_signal(SIGKILL).is_ok());
  for (int r : {0, 2}) {
    job.rank(r).read_all();
    const auto exit = job.rank(r).process.wait(Deadline::after_ms(kPatienceMs));
    ASSERT_TRUE(exit.is_ok());
    EXPECT_EQ(exit.value().shell_code(), 0) << job.rank(r).text;
    EXPECT_NE(job.rank(r).text.find("2 go on"), std::string::npos) << job.rank(r).text;
  }
}

// At any moment of a collective, in turn for each rank.
TEST(MultiProcess, KilledAtAnyMomentLong) {
  for (int round = 0; round < 30; ++round) {
    Job job(kRanks, "run", 60'000);
    job.wait_until_ready();
    usleep(static_cast<useconds_t>(round * 997 % 20'000));
    const int lost = round % kRanks;
    ASSERT_TRUE(job.rank(lost).process.send_signal(SIGKILL).is_ok());
    job.expect_all_say(lost, {"peer_dead", "rank " + std::to_string(lost) + " ("});
  }
}

}  // namespace
}  // namespace trireme
