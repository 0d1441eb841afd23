// Ranks as threads of the test, each with an NCCL communicator of all.
#pragma once

#include <gtest/gtest.h>
#include <nccl.h>

#include <functional>
#include <thread>
#include <vector>

#include <trireme/base/data_type.h>

namespace trireme::test {

struct NcclType {
  ncclDataType_t nccl;
  DataType ours;
};
inline constexpr NcclType kNcclTypes[] = {
    {ncclInt8, DataType::i8},       {ncclUint8, DataType::u8},           {ncclInt32, DataType::i32},
    {ncclUint32, DataType::u32},    {ncclInt64, DataType::i64},          {ncclUint64, DataType::u64},
    {ncclFloat16, DataType::f16},   {ncclFloat32, DataType::f32},        {ncclFloat64, DataType::f64},
    {ncclBfloat16, DataType::bf16}, {ncclFloat8e4m3, DataType::f8_e4m3}, {ncclFloat8e5m2, DataType::f8_e5m2},
};
static_assert(sizeof kNcclTypes / sizeof kNcclTypes[0] == ncclNumTypes);

struct NcclOp {
  ncclRedOp_t nccl;
  ReduceOp ours;
};
inline constexpr NcclOp kNcclOps[] = {{ncclSum, ReduceOp::sum},
                                      {ncclProd, ReduceOp::product},
                                      {ncclMax, ReduceOp::max},
                                      {ncclMin, ReduceOp::min},
                                      {ncclAvg, ReduceOp::average}};
static_assert(sizeof kNcclOps / sizeof kNcclOps[0] == ncclNumOps);

#define EXPECT_NCCL(call) EXPECT_EQ(call, ncclSuccess) << ncclGetLastError(nullptr)
#define ASSERT_NCCL(call) ASSERT_EQ(call, ncclSuccess) << ncclGetLastError(nullptr)

// `body(communicator, rank)` on `ranks` threads; communicators are destroyed afterwards.
inline void run_nccl_ranks(int ranks, const std::function<void(ncclComm_t, int)>& body) {
  ncclUniqueId id;
  ASSERT_NCCL(ncclGetUniqueId(&id));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ncclComm_t comm = nullptr;
      ASSERT_NCCL(ncclCommInitRank(&comm, ranks, id, rank));
      body(comm, rank);
      EXPECT_NCCL(ncclCommDestroy(comm));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// The communicators of one thread, as ncclCommInitAll gives them.
class Clique {
 public:
  explicit Clique(int ranks) : comms(static_cast<std::size_t>(ranks)) {
    EXPECT_NCCL(ncclCommInitAll(comms.data(), ranks, nullptr));
  }
  ~Clique() {
    for (ncclComm_t comm : comms) EXPECT_NCCL(ncclCommDestroy(comm));
  }
  std::vector<ncclComm_t> comms;
};

}  // namespace trireme::test
