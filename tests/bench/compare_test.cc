// --backend and --compare of the *_perf programs.
#include <unistd.h>

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/platform/api/files.h"
#include "tests/program.h"

namespace trireme::bench {
namespace {

const std::string kPerf = std::string(TRIREME_BINARY_DIR) + "/bin/all_reduce_perf";

using test::Outcome;

Outcome run(const std::vector<std::string>& command) {
  return test::run(command, test::open_mpi_environment());
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(CollectivePerfCompare, UnknownBackendsAreRefused) {
  for (const char* flag : {"--backend", "--compare"}) {
    const Outcome outcome = run({kPerf, flag, "gloo", "-t", "2"});
    EXPECT_EQ(outcome.code, 2) << outcome.output;
    EXPECT_NE(outcome.output.find("expected one of ours, mpi, nccl"), std::string::npos) << outcome.output;
  }
}

TEST(CollectivePerfCompare, ABackendThatCannotBeHadSaysWhy) {
  const Outcome outcome = run({kPerf, "--compare", "mpi", "-t", "2", "-b", "8"});
  EXPECT_NE(outcome.code, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("backend mpi: rank "), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("threads of one process"), std::string::npos) << outcome.output;
}

TEST(CollectivePerfCompare, RowsOfBothBackendsInOneRun) {
#ifndef TRIREME_HAVE_MPI
  GTEST_SKIP() << "needs a build with MPI (package libopenmpi-dev)";
#else
  if (access("/usr/bin/mpirun", X_OK) != 0) GTEST_SKIP() << "needs mpirun (package openmpi-bin)";
  const auto folder = make_temporary_directory("trireme-compare-");
  ASSERT_TRUE(folder.is_ok());
  const std::string json = folder.value() + "/rows.json";
  const Outcome outcome = run({"mpirun",
                               "--allow-run-as-root",
                               "--oversubscribe",
                               "-n",
                               "2",
                               kPerf,
                               "--compare",
                               "mpi",
                               "-b",
                               "8",
                               "-e",
                               "4K",
                               "-f",
                               "8",
                               "-n",
                               "3",
                               "-w",
                               "1",
                               "-J",
                               json});
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("# Backend ours"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("# Backend mpi (Open MPI"), std::string::npos) << outcome.output;
  EXPECT_EQ(count(outcome.output, "    ours    1.00"), 4) << outcome.output;
  EXPECT_EQ(count(outcome.output, "     mpi  "), 4) << outcome.output;
  const auto rows = read_file(json);
  ASSERT_TRUE(rows.is_ok()) << rows.status().to_string();
  EXPECT_EQ(count(rows.value(), "\"backend\": \"mpi\""), 8);
  EXPECT_EQ(count(rows.value(), "\"backend\": \"ours\""), 8);
  EXPECT_EQ(count(rows.value(), "\"wrong\": 0"), 16);
#endif
}

TEST(CollectivePerfCompare, WhatABackendCannotDoIsNoRow) {
#ifndef TRIREME_HAVE_MPI
  GTEST_SKIP() << "needs a build with MPI (package libopenmpi-dev)";
#else
  if (access("/usr/bin/mpirun", X_OK) != 0) GTEST_SKIP() << "needs mpirun (package openmpi-bin)";
  const Outcome outcome = run({"mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", kPerf, "--compare", "mpi",
                               "-b", "64", "-n", "3", "-w", "1", "-d", "half"});
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("backend mpi does not reduce f16"), std::string::npos) << outcome.output;
#endif
}

}  // namespace
}  // namespace trireme::bench
