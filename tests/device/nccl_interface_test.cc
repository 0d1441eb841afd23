// libtrireme_nccl.so with device pointers and streams, on the machine's GPUs: two ranks, on
// one GPU when there is no second.
#include <gtest/gtest.h>
#include <trireme/device/device.h>

#include <cstring>
#include <memory>
#include <vector>

#include "collectives/nccl_interface/abi.h"

extern "C" {
int ncclCommInitAll(ncclComm** comms, int count, const int* devices);
int ncclCommDestroy(ncclComm* comm);
int ncclAllReduce(const void* in, void* out, std::size_t count, int type, int op, ncclComm* comm, void* stream);
int ncclGroupStart();
int ncclGroupEnd();
const char* ncclGetLastError(const ncclComm* comm);
}

namespace trireme {
namespace {

constexpr int kRanks = 2;
constexpr int kFloat = 7;
constexpr int kSum = 0;

struct Rank {
  std::shared_ptr<Device> gpu;
  std::unique_ptr<Stream> stream;
  void* memory = nullptr;
};

TEST(NcclInterfaceOnGpu, AllReducesDeviceMemoryInTheOrderOfTheStream) {
  std::vector<std::shared_ptr<Device>> gpus;
  for (const auto& device : devices().devices) {
    if (device->id().kind == DeviceKind::cuda) gpus.push_back(device);
  }
  if (gpus.empty()) GTEST_SKIP() << "needs a GPU: " << devices().note;
  int indices[kRanks];
  for (int r = 0; r < kRanks; ++r) indices[r] = static_cast<int>(static_cast<std::size_t>(r) % gpus.size());
  ncclComm* comms[kRanks] = {};
  ASSERT_EQ(ncclCommInitAll(comms, kRanks, indices), 0) << ncclGetLastError(nullptr);
  for (const std::size_t count :
       {std::size_t{1}, std::size_t{1023}, std::size_t{1} << 20, (std::size_t{16} << 20) + 3}) {
    const std::size_t bytes = count * sizeof(float);
    std::vector<Rank> ranks(kRanks);
    std::vector<std::vector<float>> in(kRanks);
    for (int r = 0; r < kRanks; ++r) {
      Rank& rank = ranks[static_cast<std::size_t>(r)];
      rank.gpu = gpus[static_cast<std::size_t>(indices[r])];
      rank.stream = std::move(rank.gpu->make_stream()).value();
      rank.memory = rank.gpu->allocate(bytes, MemoryKind::device).value();
      for (std::size_t i = 0; i < count; ++i) {
        in[static_cast<std::size_t>(r)].push_back(static_cast<float>(i % 1000) + static_cast<float>(r));
      }
      // Not waited for: the all-reduce comes later on the same stream.
      ASSERT_TRUE(rank.stream->copy(rank.memory, in[static_cast<std::size_t>(r)].data(), bytes).is_ok());
    }
    ASSERT_EQ(ncclGroupStart(), 0);
    for (int r = 0; r < kRanks; ++r) {
      Rank& rank = ranks[static_cast<std::size_t>(r)];
      ASSERT_EQ(ncclAllReduce(rank.memory, rank.memory, count, kFloat, kSum, comms[r], rank.stream->native_handle()), 0)
          << ncclGetLastError(nullptr);
    }
    ASSERT_EQ(ncclGroupEnd(), 0) << ncclGetLastError(nullptr);
    for (Rank& rank : ranks) {
      std::vector<float> out(count);
      ASSERT_TRUE(rank.stream->copy(out.data(), rank.memory, bytes).is_ok());
      ASSERT_TRUE(rank.stream->synchronize().is_ok());
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(out[i], in[0][i] + in[1][i]) << i << " of " << count;
      rank.gpu->deallocate(rank.memory, MemoryKind::device);
    }
  }
  for (ncclComm* comm : comms) EXPECT_EQ(ncclCommDestroy(comm), 0);
}

}  // namespace
}  // namespace trireme
