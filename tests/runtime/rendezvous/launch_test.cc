// The ways to start ranks that are not ours: mpirun for real, srun's and torchrun's
// variables by hand.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>

#include "runtime/platform/api/sockets.h"
#include "runtime/rendezvous/slurm.h"
#include "tests/runtime/rendezvous/rank_processes.h"

namespace trireme {
namespace {

const std::string kRankProgram = std::string(TRIREME_BINARY_DIR) + "/tests/test_rendezvous_rank";

bool is_in_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::string rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const std::size_t colon = rest.find(':');
    if (std::filesystem::exists(rest.substr(0, colon) + "/" + program)) return true;
    rest = colon == std::string::npos ? "" : rest.substr(colon + 1);
  }
  return false;
}

std::vector<std::string> mpirun(int ranks, const std::vector<std::string>& command) {
  std::vector<std::string> all = {"mpirun", "--allow-run-as-root", "--oversubscribe", "-n", std::to_string(ranks)};
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

TEST(Mpirun, RanksMeetWithoutAnyFlag) {
  if (!is_in_path("mpirun")) GTEST_SKIP() << "needs mpirun (package openmpi-bin)";
  for (const int size : {1, 4}) {
    RankProcess job(mpirun(size, {kRankProgram, "exchange"}), {});
    EXPECT_EQ(job.finish(), 0) << job.output();
    for (int rank = 0; rank < size; ++rank) {
      const std::string line = "rank " + std::to_string(rank) + " of " + std::to_string(size) + " local " +
                               std::to_string(rank) + " of " + std::to_string(size) + " node 0 of 1";
      EXPECT_NE(job.output().find(line), std::string::npos) << job.output();
    }
  }
}

TEST(Mpirun, TheDeathOfTheRankThatHostsTheStoreIsNamed) {
  if (!is_in_path("mpirun")) GTEST_SKIP() << "needs mpirun (package openmpi-bin)";
  // mpirun ends the others by SIGTERM; ignoring it, they have the time to tell what they learnt.
  RankProcess job(mpirun(3, {"sh", "-c", "trap '' TERM; exec " + kRankProgram + " kill 0"}), {});
  EXPECT_NE(job.finish(), 0);
  EXPECT_NE(job.output().find("rank 0 (" + host_name()), std::string::npos) << job.output();
  EXPECT_NE(job.output().find("it hosted the job's store"), std::string::npos) << job.output();
}

std::vector<std::string> srun(int rank, int size, const std::string& job, const std::string& nodes) {
  return {"SLURM_PROCID=" + std::to_string(rank), "SLURM_NTASKS=" + std::to_string(size), "SLURM_JOB_ID=" + job,
          "SLURM_STEP_ID=0", "SLURM_STEP_NODELIST=" + nodes};
}

using Ranks = std::vector<std::unique_ptr<RankProcess>>;

void expect_all_well(const Ranks& ranks) {
  for (const auto& rank : ranks) EXPECT_EQ(rank->finish(), 0) << rank->output();
}

TEST(Srun, OneHost) {
  const std::string job = std::to_string(::getpid());
  Ranks ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.push_back(std::make_unique<RankProcess>(std::vector{kRankProgram}, srun(rank, 3, job, "node1")));
  }
  expect_all_well(ranks);
}

// Two jobs whose ports collide: the second finds the first port taken, and its ranks find
// the store of another job there.
TEST(Srun, SeveralHostsAndAPortThatIsTaken) {
  const std::string job = std::to_string(::getpid());
  const int port = store::candidate_ports("slurm-" + job + ".0").front();
  // Should this fail, someone else holds the port, which serves as well.
  const auto taken = Listener::listen(SocketAddress{"127.0.0.1:" + std::to_string(port)});
  Ranks ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.push_back(std::make_unique<RankProcess>(std::vector{kRankProgram}, srun(rank, 2, job, "localhost,node2")));
  }
  expect_all_well(ranks);
}

// Slurm's node names need not be host names: NodeAddr says where such a node is.
TEST(Srun, NodeNamesThatOnlySlurmKnows) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("trireme-scontrol-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "scontrol") << "#!/bin/sh\n[ \"$*\" = '--oneliner show node n-1.invalid' ] || exit 1\n"
                                        "echo 'NodeName=n-1.invalid NodeAddr=127.0.0.1 NodeHostName=vm State=IDLE'\n";
  std::filesystem::permissions(folder / "scontrol", std::filesystem::perms::owner_all);
  const std::string path = "PATH=" + folder.string() + ":" + std::getenv("PATH");
  const std::string job = std::to_string(::getpid()) + "1";
  Ranks ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.push_back(std::make_unique<RankProcess>(std::vector<std::string>{"env", path, kRankProgram},
                                                  srun(rank, 2, job, "n-1.invalid,n-2.invalid")));
  }
  expect_all_well(ranks);
  RankProcess lost({"env", path, kRankProgram}, srun(1, 2, job, "n-3.invalid,n-1.invalid"));
  EXPECT_NE(lost.finish(), 0);
  EXPECT_NE(lost.output().find("scontrol show node n-3.invalid: exit code 1"), std::string::npos) << lost.output();
  EXPECT_NE(lost.output().find("NodeAddr in slurm.conf"), std::string::npos) << lost.output();
  std::filesystem::remove_all(folder);
}

TEST(Torchrun, MasterAddressAndPort) {
  const int port = Listener::listen(SocketAddress{"127.0.0.1:0"}).value().address().port();
  Ranks ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.push_back(std::make_unique<RankProcess>(
        std::vector{kRankProgram},
        std::vector<std::string>{"RANK=" + std::to_string(rank), "WORLD_SIZE=3", "MASTER_ADDR=localhost",
                                 "MASTER_PORT=" + std::to_string(port)}));
  }
  expect_all_well(ranks);
}

TEST(Torchrun, TheDeathOfTheHostingRankIsItsOwnFault) {
  const int port = Listener::listen(SocketAddress{"127.0.0.1:0"}).value().address().port();
  Ranks ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.push_back(std::make_unique<RankProcess>(
        std::vector<std::string>{kRankProgram, "kill", "0"},
        std::vector<std::string>{"RANK=" + std::to_string(rank), "WORLD_SIZE=3", "MASTER_ADDR=127.0.0.1",
                                 "MASTER_PORT=" + std::to_string(port)}));
  }
  EXPECT_EQ(ranks[0]->finish(), 137);
  for (const int rank : {1, 2}) {
    EXPECT_EQ(ranks[rank]->finish(), 0) << ranks[rank]->output();
    EXPECT_NE(ranks[rank]->output().find("culprit 0"), std::string::npos) << ranks[rank]->output();
  }
}

TEST(Launch, ContradictingVariablesAreNamed) {
  RankProcess rank({kRankProgram},
                   {"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2", "PMIX_RANK=0", "PMIX_NAMESPACE=x"});
  EXPECT_EQ(rank.finish(), 3);
  EXPECT_NE(rank.output().find("PMIX_RANK=0 contradicts OMPI_COMM_WORLD_RANK=1"), std::string::npos) << rank.output();
}

}  // namespace
}  // namespace trireme
