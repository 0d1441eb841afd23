// When the transport is chosen, and what it says when it is not.
#include <gtest/gtest.h>

#include <cstdlib>

#include "runtime/transport/cuda_ipc/cuda_ipc_device.h"
#include "runtime/transport/shm/api/shm_transport.h"
#include "tests/contract/support.h"
#include "tests/runtime/transport/cuda_ipc/over_shm.h"

namespace trireme::test {
namespace {

// Both ranks' fabrics over shm and cuda_ipc, nothing forced.
std::vector<std::unique_ptr<Fabric>> fabrics() {
  static const TransportFactory kTable[] = {{"shm", create_shm_transport}, cuda_ipc_over_shm()};
  const auto worlds = LocalFabrics::local_worlds(2);
  std::vector<std::unique_ptr<Fabric>> made(2);
  on_threads(2, [&](int r) {
    FabricOptions options;
    options.transports = kTable;
    auto fabric = Fabric::create(worlds[static_cast<std::size_t>(r)], options);
    ASSERT_TRUE(fabric.is_ok()) << fabric.status().to_string();
    made[static_cast<std::size_t>(r)] = std::move(fabric).value();
  });
  return made;
}

const Reach& cuda_reach(const Fabric& fabric, int peer) {
  return fabric.choice(peer).candidates[1].reach;
}

// A context on a GPU, as a program has that computes there.
class UsesGpu {
 public:
  explicit UsesGpu(int gpu) : device_(*CudaIpcDevice::open(**CudaIpcDriver::system(), gpu, [] {})) {}

 private:
  std::shared_ptr<CudaIpcDevice> device_;
};

TEST(CudaIpcSelection, RanksThatComputeOnTheHostDoNotTouchTheGpu) {
  const auto ranks = fabrics();
  EXPECT_EQ(ranks[0]->choice(1).transport, "shm");
  EXPECT_NE(cuda_reach(*ranks[0], 1).reason.find("uses no GPU"), std::string::npos) << ranks[0]->explain(1);
  EXPECT_FALSE(process_uses_cuda(**CudaIpcDriver::system()));
}

TEST(CudaIpcSelection, WithAGpuInUseItIsTheFastestPath) {
  const UsesGpu gpu(0);
  const auto ranks = fabrics();
  for (int r : {0, 1}) {
    EXPECT_EQ(ranks[static_cast<std::size_t>(r)]->choice(1 - r).transport, "cuda_ipc");
    const std::string text = ranks[static_cast<std::size_t>(r)]->explain(1 - r);
    EXPECT_NE(text.find("0000:1a:00.0"), std::string::npos) << text;
    EXPECT_NE(text.find("0000:1b:00.0"), std::string::npos) << "rank 1's GPU: " << text;
  }
  EXPECT_EQ(cuda_reach(*ranks[0], 1).bytes_per_second, cuda_reach(*ranks[1], 0).bytes_per_second);
}

TEST(CudaIpcSelection, WithoutPeerAccessThePairIsNamed) {
  const UsesGpu gpu(0);
  setenv("TRIREME_STAND_IN_FAULTS", "no_peer", 1);
  const auto ranks = fabrics();
  unsetenv("TRIREME_STAND_IN_FAULTS");
  EXPECT_EQ(ranks[0]->choice(1).transport, "shm");
  const std::string& reason = cuda_reach(*ranks[0], 1).reason;
  EXPECT_NE(reason.find("GPU 0000:1a:00.0 of rank 0 and GPU 0000:1b:00.0 of rank 1: no peer access"), std::string::npos)
      << reason;
}

TEST(CudaIpcSelection, OneGpuOfTwoRanksIsReachedAtItsMemorysSpeed) {
  setenv("TRIREME_STAND_IN_GPUS", "1", 1);
  std::vector<std::unique_ptr<Fabric>> ranks;
  {
    const UsesGpu gpu(0);
    ranks = fabrics();
  }
  unsetenv("TRIREME_STAND_IN_GPUS");
  EXPECT_EQ(ranks[0]->choice(1).transport, "cuda_ipc");
  EXPECT_DOUBLE_EQ(cuda_reach(*ranks[0], 1).bytes_per_second, 2.0 * 1e9 * 1024 / 8 / 2 * 0.8);
}

}  // namespace
}  // namespace trireme::test
