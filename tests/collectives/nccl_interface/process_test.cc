// A program that knows only nccl.h, run unchanged on our library: as processes that share
// an id by a file, as children of a fork, under mpirun; and what its ranks learn when one
// of them is killed.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <nccl.h>

#include "runtime/platform/api/files.h"
#include "runtime/platform/api/process.h"

extern char** environ;

namespace trireme::test {
namespace {

constexpr int kPatienceMs = 100'000;

class Program {
 public:
  explicit Program(const std::vector<std::string>& command) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    SpawnOptions options;
    options.program = command.front();
    options.arguments.assign(command.begin() + 1, command.end());
    for (char** variable = environ; *variable != nullptr; ++variable) {
      if (std::string_view(*variable).rfind("LD_LIBRARY_PATH=", 0) != 0) options.environment.emplace_back(*variable);
    }
    options.environment.emplace_back("LD_LIBRARY_PATH=" TRIREME_NCCL_FOLDER);
    options.stdout_fd = ends[1];
    options.stderr_fd = ends[1];
    auto child = ChildProcess::spawn(options);
    EXPECT_TRUE(child.is_ok()) << child.status().to_string();
    if (child.is_ok()) process_ = std::move(child).value();
    close(ends[1]);
    output_ = UniqueFd(ends[0]);
  }

  // Reads until `what` has come, or to the end.
  bool read_until(const std::string& what) {
    char buffer[512];
    while (what.empty() || text.find(what) == std::string::npos) {
      const ssize_t got = read(output_.get(), buffer, sizeof buffer);
      if (got <= 0) return false;
      text.append(buffer, static_cast<std::size_t>(got));
    }
    return true;
  }
  int exit_code() {
    (void)read_until("");
    const auto exit = process_.wait(Deadline::after_ms(kPatienceMs));
    return exit.is_ok() ? exit.value().shell_code() : -1;
  }
  std::int64_t pid() const { return process_.pid(); }
  void kill() { (void)process_.send_signal(SIGKILL); }

  std::string text;

 private:
  ChildProcess process_;
  UniqueFd output_;
};

const std::string kProgram = std::string(TRIREME_BINARY_DIR) + "/tests/nccl_program";

std::string id_path() {
  auto folder = make_temporary_directory("trireme-nccl-");
  EXPECT_TRUE(folder.is_ok());
  return folder.value() + "/id";
}

std::vector<std::unique_ptr<Program>> start_ranks(const char* mode, int size) {
  const std::string path = id_path();
  std::vector<std::unique_ptr<Program>> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.push_back(std::make_unique<Program>(
        std::vector<std::string>{kProgram, mode, path, std::to_string(rank), std::to_string(size)}));
  }
  return ranks;
}

TEST(NcclProgram, RunsAsOneToEightProcesses) {
  for (int size = 1; size <= 8; ++size) {
    for (auto& rank : start_ranks("file", size)) EXPECT_EQ(rank->exit_code(), 0) << rank->text;
  }
}

TEST(NcclProgram, RunsAsChildrenOfAFork) {
  for (int size : {1, 4}) {
    Program parent({kProgram, "fork", std::to_string(size)});
    EXPECT_EQ(parent.exit_code(), 0) << parent.text;
  }
}

TEST(NcclProgram, RunsUnderMpirun) {
  if (access("/usr/bin/mpirun", X_OK) != 0) GTEST_SKIP() << "needs mpirun (package openmpi-bin)";
  Program job({"mpirun", "--allow-run-as-root", "--oversubscribe", "-x", "LD_LIBRARY_PATH", "-n", "3", kProgram, "mpi",
               id_path()});
  EXPECT_EQ(job.exit_code(), 0) << job.text;
}

TEST(NcclProgram, AKilledRankIsNamedToTheOthers) {
  auto ranks = start_ranks("stay", 3);
  for (auto& rank : ranks) ASSERT_TRUE(rank->read_until("ready")) << rank->text;
  ranks[2]->kill();
  for (int survivor : {0, 1}) {
    EXPECT_EQ(ranks[static_cast<std::size_t>(survivor)]->exit_code(), 0);
    const std::string& words = ranks[static_cast<std::size_t>(survivor)]->text;
    EXPECT_NE(words.find(std::to_string(ncclRemoteError) + " peer_dead: "), std::string::npos) << words;
    EXPECT_NE(words.find("rank 2"), std::string::npos) << words;
    EXPECT_NE(words.find("pid " + std::to_string(ranks[2]->pid())), std::string::npos) << words;
  }
}

}  // namespace
}  // namespace trireme::test
