// Device pointers and streams, with a stand-in for CUDA: what is in device memory is
// staged, in the order of its stream. Declares NCCL's functions itself, so that it is
// built where nccl.h is not installed.
#include "tests/collectives/nccl_interface/fake_cuda.h"

#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "collectives/nccl_interface/abi.h"

using trireme::nccl::Code;
using trireme::nccl::UniqueId;

extern "C" {
int ncclGetUniqueId(UniqueId* id);
int ncclCommInitAll(ncclComm** comms, int count, const int* devices);
int ncclCommDestroy(ncclComm* comm);
int ncclCommCuDevice(const ncclComm* comm, int* device);
int ncclAllReduce(const void* in, void* out, std::size_t count, int type, int op, ncclComm* comm, void* stream);
int ncclAllGather(const void* in, void* out, std::size_t count, int type, ncclComm* comm, void* stream);
int ncclSend(const void* in, std::size_t count, int type, int peer, ncclComm* comm, void* stream);
int ncclRecv(void* out, std::size_t count, int type, int peer, ncclComm* comm, void* stream);
int ncclRedOpCreatePreMulSum(int* op, void* scalar, int type, int residence, ncclComm* comm);
int ncclGroupStart();
int ncclGroupEnd();
int ncclMemAlloc(void** memory, std::size_t bytes);
int ncclMemFree(void* memory);
const char* ncclGetLastError(const ncclComm* comm);
}

namespace trireme::test {
namespace {

constexpr int kFloat = 7;
constexpr int kRanks = 3;
constexpr std::size_t kCount = 1000;
constexpr std::size_t kBytes = kCount * sizeof(float);

float* view(void* device_pointer) {
  return reinterpret_cast<float*>(fake_kernel_view(device_pointer));
}

// One rank's device: a slow stream, an input and an output.
struct Rank {
  void* stream = make_fake_stream(20);
  void* in = fake_device_malloc(kBytes);
  void* out = fake_device_malloc(kBytes * kRanks);
  ~Rank() {
    fake_synchronize(stream);
    destroy_fake_stream(stream);
    fake_device_free(in);
    fake_device_free(out);
  }
  // A kernel that fills the input, later.
  void produce(float value) {
    enqueue_fake_kernel(stream, [this, value] { std::fill_n(view(in), kCount, value); });
  }
};

class NcclFakeCuda : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(ncclCommInitAll(comms_, kRanks, nullptr), 0) << ncclGetLastError(nullptr); }
  void TearDown() override {
    for (ncclComm* comm : comms_) EXPECT_EQ(ncclCommDestroy(comm), 0);
  }
  // All ranks' calls, as one group.
  template <typename Call>
  void grouped(const Call& call) {
    ASSERT_EQ(ncclGroupStart(), 0);
    for (int r = 0; r < kRanks; ++r) EXPECT_EQ(call(r), 0) << ncclGetLastError(nullptr);
    ASSERT_EQ(ncclGroupEnd(), 0) << ncclGetLastError(nullptr);
  }

  ncclComm* comms_[kRanks] = {};
  Rank ranks_[kRanks];
};

TEST_F(NcclFakeCuda, ResultsFollowTheOrderOfTheStream) {
  for (int r = 0; r < kRanks; ++r) ranks_[r].produce(static_cast<float>(r + 1));
  grouped([&](int r) {
    return ncclAllReduce(ranks_[r].in, ranks_[r].out, kCount, kFloat, 0, comms_[r], ranks_[r].stream);
  });
  for (Rank& rank : ranks_) {
    // What comes later on the stream finds the sum; what came before was waited for.
    std::vector<float> seen(kCount);
    enqueue_fake_kernel(rank.stream, [&] { std::copy_n(view(rank.out), kCount, seen.begin()); });
    rank.produce(0);
    fake_synchronize(rank.stream);
    EXPECT_EQ(seen, std::vector<float>(kCount, 6.0F));
  }
}

TEST_F(NcclFakeCuda, InPlaceAndFromHostToDevice) {
  std::vector<float> host(kCount, 2.0F);
  for (Rank& rank : ranks_) rank.produce(5);
  // Rank 0 contributes host memory; the others work in place in device memory.
  grouped([&](int r) {
    const void* in = r == 0 ? static_cast<const void*>(host.data()) : ranks_[r].in;
    return ncclAllReduce(in, ranks_[r].in, kCount, kFloat, 0, comms_[r], ranks_[r].stream);
  });
  for (Rank& rank : ranks_) {
    fake_synchronize(rank.stream);
    EXPECT_EQ(std::vector<float>(view(rank.in), view(rank.in) + kCount), std::vector<float>(kCount, 12.0F));
  }
  EXPECT_EQ(host, std::vector<float>(kCount, 2.0F));
}

TEST_F(NcclFakeCuda, GathersAndMessages) {
  for (int r = 0; r < kRanks; ++r) ranks_[r].produce(static_cast<float>(r));
  grouped(
      [&](int r) { return ncclAllGather(ranks_[r].in, ranks_[r].out, kCount, kFloat, comms_[r], ranks_[r].stream); });
  for (Rank& rank : ranks_) {
    for (std::size_t i = 0; i < kCount * kRanks; ++i) ASSERT_EQ(view(rank.out)[i], static_cast<float>(i / kCount));
  }
  ASSERT_EQ(ncclGroupStart(), 0);
  for (int r = 0; r < kRanks; ++r) {
    EXPECT_EQ(ncclSend(ranks_[r].in, kCount, kFloat, (r + 1) % kRanks, comms_[r], ranks_[r].stream), 0);
    EXPECT_EQ(ncclRecv(ranks_[r].out, kCount, kFloat, (r + 2) % kRanks, comms_[r], ranks_[r].stream), 0);
  }
  ASSERT_EQ(ncclGroupEnd(), 0) << ncclGetLastError(nullptr);
  for (int r = 0; r < kRanks; ++r) EXPECT_EQ(view(ranks_[r].out)[kCount - 1], static_cast<float>((r + 2) % kRanks));
}

TEST_F(NcclFakeCuda, AScalarInDeviceMemory) {
  int ops[kRanks] = {};
  void* scalars[kRanks] = {};
  for (int r = 0; r < kRanks; ++r) {
    scalars[r] = fake_device_malloc(sizeof(float));
    ASSERT_EQ(ncclRedOpCreatePreMulSum(&ops[r], scalars[r], kFloat, nccl::kScalarDevice, comms_[r]), 0);
    ranks_[r].produce(1);
    enqueue_fake_kernel(ranks_[r].stream, [&, r] { *view(scalars[r]) = static_cast<float>(10 * r); });
  }
  grouped([&](int r) {
    return ncclAllReduce(ranks_[r].in, ranks_[r].out, kCount, kFloat, ops[r], comms_[r], ranks_[r].stream);
  });
  for (int r = 0; r < kRanks; ++r) {
    EXPECT_EQ(view(ranks_[r].out)[7], 30.0F);
    fake_device_free(scalars[r]);
  }
}

TEST_F(NcclFakeCuda, DevicesMemoryAndCapture) {
  int device = -1;
  EXPECT_EQ(ncclCommCuDevice(comms_[2], &device), 0);
  EXPECT_EQ(device, 2);
  void* memory = nullptr;
  ASSERT_EQ(ncclMemAlloc(&memory, 64), 0);
  EXPECT_NE(fake_kernel_view(memory), nullptr) << "ncclMemAlloc gives device memory where there is a device";
  EXPECT_EQ(ncclMemFree(memory), 0);
  set_fake_capture(true);
  const int captured = ncclAllReduce(ranks_[0].in, ranks_[0].out, kCount, kFloat, 0, comms_[0], ranks_[0].stream);
  set_fake_capture(false);
  EXPECT_EQ(captured, static_cast<int>(Code::invalid_usage));
  EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("captured"), std::string::npos);
}

}  // namespace
}  // namespace trireme::test
