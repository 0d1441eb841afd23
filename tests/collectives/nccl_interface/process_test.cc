// A program that knows only nccl.h, run unchanged on our library: as processes that share
// an id by a file, as children of a fork, under mpirun; and what its ranks learn when one
// of them is killed.
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nccl.h>

#include "runtime/platform/api/files.h"
#include "tests/program.h"

namespace trireme::test {
namespace {

const std::string kProgram = std::string(TRIREME_BINARY_DIR) + "/tests/nccl_program";
const std::vector<std::string> kEnvironment = {"LD_LIBRARY_PATH=" TRIREME_NCCL_FOLDER};

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
        std::vector<std::string>{kProgram, mode, path, std::to_string(rank), std::to_string(size)}, kEnvironment));
  }
  return ranks;
}

void expect_success(Program& program) {
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.code, 0) << outcome.output;
}

TEST(NcclProgram, RunsAsOneToEightProcesses) {
  for (int size = 1; size <= 8; ++size) {
    for (auto& rank : start_ranks("file", size)) expect_success(*rank);
  }
}

TEST(NcclProgram, RunsAsChildrenOfAFork) {
  for (int size : {1, 4}) {
    Program parent({kProgram, "fork", std::to_string(size)}, kEnvironment);
    expect_success(parent);
  }
}

TEST(NcclProgram, RunsUnderMpirun) {
  if (access("/usr/bin/mpirun", X_OK) != 0) GTEST_SKIP() << "needs mpirun (package openmpi-bin)";
  Program job({"mpirun", "--allow-run-as-root", "--oversubscribe", "-x", "LD_LIBRARY_PATH", "-n", "3", kProgram, "mpi",
               id_path()},
              kEnvironment);
  expect_success(job);
}

TEST(NcclProgram, AKilledRankIsNamedToTheOthers) {
  auto ranks = start_ranks("stay", 3);
  for (auto& rank : ranks) ASSERT_TRUE(rank->prints("ready")) << rank->output();
  ranks[2]->kill();
  for (int survivor : {0, 1}) {
    const Outcome outcome = ranks[static_cast<std::size_t>(survivor)]->wait();
    EXPECT_EQ(outcome.code, 0);
    const std::string& words = outcome.output;
    EXPECT_NE(words.find(std::to_string(ncclRemoteError) + " peer_dead: "), std::string::npos) << words;
    EXPECT_NE(words.find("rank 2"), std::string::npos) << words;
    EXPECT_NE(words.find("pid " + std::to_string(ranks[2]->pid())), std::string::npos) << words;
  }
}

}  // namespace
}  // namespace trireme::test
