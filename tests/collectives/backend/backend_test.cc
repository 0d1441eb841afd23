// Backends: which there are, why one cannot be had, and MPI's for real under mpirun.
#include <trireme/collectives/backend.h>

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <trireme/collectives/communicator.h>
#include <trireme/device/device.h>

#include "runtime/rendezvous/api/local_worlds.h"
#include "tests/program.h"

namespace trireme {
namespace {

Status status_of(const std::string& backend, int ranks = 1) {
  auto worlds = make_local_worlds(ranks);
  EXPECT_TRUE(worlds.is_ok()) << worlds.status().to_string();
  CommunicatorOptions options;
  options.backend = backend;
  Status status;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank, world = std::move(worlds.value()[static_cast<std::size_t>(rank)])]() mutable {
      const auto made = Communicator::create(std::move(world), options);
      if (rank == 0) status = made.status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return status;
}

bool says(const Status& status, StatusCode code, const std::string& part) {
  return status.code() == code && status.message().find(part) != std::string::npos;
}

TEST(Backend, UnknownNamesAreRefusedWithTheKnownOnes) {
  EXPECT_EQ(backend_names(), (std::vector<std::string>{"ours", "mpi", "nccl"}));
  const Status status = status_of("gloo");
  EXPECT_TRUE(says(status, StatusCode::invalid_argument, "expected one of ours, mpi, nccl")) << status.to_string();
}

TEST(Backend, OursIsTheDefaultAndSaysWhatItCan) {
  auto worlds = make_local_worlds(1);
  ASSERT_TRUE(worlds.is_ok());
  const auto made = Communicator::create(std::move(worlds.value()[0]));
  ASSERT_TRUE(made.is_ok()) << made.status().to_string();
  const BackendInfo& info = made.value()->backend();
  EXPECT_EQ(info.name, "ours");
  EXPECT_TRUE(info.abortable && info.names_culprit && info.low_precision_sums);
}

TEST(Backend, NcclWithoutAGpuSaysSo) {
  for (const auto& device : devices().devices) {
    if (device->id().kind == DeviceKind::cuda) GTEST_SKIP() << "needs a machine without a GPU";
  }
  const Status status = status_of("nccl");
  const bool said = says(status, StatusCode::unavailable, "backend nccl: this rank has no GPU") ||
                    says(status, StatusCode::unsupported, "this build has no NCCL backend");
  EXPECT_TRUE(said) << status.to_string();
}

TEST(Backend, MpiIsOneRankAProcess) {
  const Status status = status_of("mpi", 2);
  EXPECT_TRUE(says(status, StatusCode::unsupported, "threads of one process")) << status.to_string();
}

TEST(Backend, MpiWithoutItsLauncherSaysHowToStart) {
  if (getenv("OMPI_COMM_WORLD_SIZE") != nullptr) GTEST_SKIP() << "needs a start without mpirun";
  const Status status = status_of("mpi");
  const bool said = says(status, StatusCode::unavailable, "mpirun -n N") ||
                    says(status, StatusCode::unavailable, "libtrireme_mpi.so is not installed");
  EXPECT_TRUE(said) << status.to_string();
}

TEST(Backend, MpiDoesWhatOursDoes) {
#ifndef TRIREME_HAVE_MPI
  GTEST_SKIP() << "needs a build with MPI (package libopenmpi-dev)";
#else
  if (access("/usr/bin/mpirun", X_OK) != 0) GTEST_SKIP() << "needs mpirun (package openmpi-bin)";
  for (const int ranks : {1, 3, 4}) {
    const test::Outcome outcome =
        test::run({"mpirun", "--allow-run-as-root", "--oversubscribe", "-n", std::to_string(ranks),
                   std::string(TRIREME_BINARY_DIR) + "/tests/test_backend_rank", "mpi"},
                  test::open_mpi_environment());
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_NE(outcome.output.find("checked "), std::string::npos) << outcome.output;
  }
#endif
}

}  // namespace
}  // namespace trireme
