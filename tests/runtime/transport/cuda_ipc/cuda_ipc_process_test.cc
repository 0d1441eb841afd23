// Two processes share GPU memory: by handles, by descriptors, through the host when neither
// works, and with memory that comes and goes.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/platform/api/process.h"
#include "runtime/rendezvous/api/store_server.h"
#include "tests/contract/support.h"
#include "tests/runtime/transport/cuda_ipc/over_shm.h"

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

class CudaIpcProcesses : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = why_no_gpu(); !reason.empty()) {
#ifdef TRIREME_CUDA_STAND_IN
      FAIL() << reason;
#else
      GTEST_SKIP() << "needs a GPU: " << reason;
#endif
    }
  }

  // Both ranks; `faults` are rank 1's stand-in's.
  void start(const std::string& scenario, const std::string& faults = "") {
    StoreServerOptions options;
    options.job_id = "cuda_ipc";
    options.secret = "secret";
    options.world_size = 2;
    auto store = StoreServer::start(options);
    ASSERT_TRUE(store.is_ok()) << store.status().to_string();
    store_ = std::move(store).value();
    for (int rank = 0; rank < 2; ++rank) start_rank(scenario, rank, rank == 1 ? faults : "");
  }

  void start_rank(const std::string& scenario, int rank, const std::string& faults) {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    SpawnOptions options;
    // Beside this program, wherever both were copied.
    options.program = (std::filesystem::read_symlink("/proc/self/exe").parent_path() / TRIREME_CUDA_IPC_RANK).string();
    options.arguments = {scenario, std::to_string(rank), store_->address(), "secret"};
    for (char** variable = environ; *variable != nullptr; ++variable) options.environment.emplace_back(*variable);
    if (!faults.empty()) options.environment.push_back("TRIREME_STAND_IN_FAULTS=" + faults);
    options.stdout_fd = ends[1];
    auto child = ChildProcess::spawn(options);
    close(ends[1]);
    ASSERT_TRUE(child.is_ok()) << child.status().to_string();
    ranks_.push_back({std::move(child).value(), UniqueFd(ends[0])});
  }

  void expect_success(RankProcess& rank) {
    const std::string output = rank.read_until("\x01");  // To the end.
    const auto exit = rank.process.wait(Deadline::after_ms(kPatienceMs));
    ASSERT_TRUE(exit.is_ok()) << exit.status().to_string();
    EXPECT_TRUE(!exit->signaled && exit->code == 0) << exit->to_string() << ": " << output;
  }

  void play(const std::string& scenario, const std::string& faults = "") {
    start(scenario, faults);
    ASSERT_EQ(ranks_.size(), 2u);
    for (RankProcess& rank : ranks_) expect_success(rank);
  }

  std::unique_ptr<StoreServer> store_;
  std::vector<RankProcess> ranks_;
};

TEST_F(CudaIpcProcesses, ShareByHandles) {
  play("handles");
}

TEST_F(CudaIpcProcesses, ShareByDescriptors) {
  play("descriptors");
}

TEST_F(CudaIpcProcesses, MemoryThatCannotBeSharedGoesThroughTheHost) {
  play("unshared");
}

TEST_F(CudaIpcProcesses, MemoryAllocatedAnewAtTheSameAddressIsAnother) {
  play("reuse");
}

TEST_F(CudaIpcProcesses, MemoryMappedAnewAtTheSameAddressIsAnother) {
  play("reuse_descriptors");
}

#ifdef TRIREME_CUDA_STAND_IN
TEST_F(CudaIpcProcesses, HandlesThatCannotBeOpenedSendItThroughTheHost) {
  play("fallback", "no_opening");
}

TEST_F(CudaIpcProcesses, ATestCopyWithOtherBytesSendsItThroughTheHost) {
  play("fallback", "wrong_bytes");
}
#endif

TEST_F(CudaIpcProcesses, TheDeathOfTheSenderIsNamed) {
  ASSERT_NO_FATAL_FAILURE(start("death"));
  for (RankProcess& rank : ranks_) {
    const std::string output = rank.read_until("ready");
    ASSERT_NE(output.find("ready"), std::string::npos) << output;
  }
  ASSERT_TRUE(ranks_[0].process.send_signal(SIGKILL).is_ok());
  expect_success(ranks_[1]);
}

}  // namespace
}  // namespace trireme::test
