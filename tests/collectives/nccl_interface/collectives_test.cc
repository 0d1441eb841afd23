// Every collective of nccl.h with every type and operation at 1 to 8 ranks, against an
// independent reference.
#include "tests/collectives/nccl_interface/nccl_ranks.h"
#include "tests/collectives/reference.h"

namespace trireme::test {
namespace {

using Bytes = std::vector<std::byte>;
constexpr std::size_t kCounts[] = {0, 1, 7, 1000};

Bytes output(DataType type, std::size_t count) {
  return Bytes(count * size_of(type), std::byte{0x5a});
}

// What all ranks contribute, one after the other.
Bytes all_inputs(DataType type, int ranks, std::size_t count) {
  Bytes all;
  for (int rank = 0; rank < ranks; ++rank) {
    const Bytes part = make_input(type, ReduceOp::sum, rank, count);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

void check_all_reduce(ncclComm_t comm, int rank, int ranks, NcclType type, NcclOp op, std::size_t count) {
  Bytes in = make_input(type.ours, op.ours, rank, count);
  Bytes out = output(type.ours, count);
  EXPECT_NCCL(ncclAllReduce(in.data(), out.data(), count, type.nccl, op.nccl, comm, nullptr));
  EXPECT_EQ(compare_reduced(type.ours, op.ours, ranks, out.data(), count), "");
  EXPECT_NCCL(ncclAllReduce(in.data(), in.data(), count, type.nccl, op.nccl, comm, nullptr));
  EXPECT_EQ(compare_reduced(type.ours, op.ours, ranks, in.data(), count), "");
}

void check_reduce(ncclComm_t comm, int rank, int ranks, NcclType type, NcclOp op, std::size_t count) {
  const int root = static_cast<int>(count) % ranks;
  const Bytes in = make_input(type.ours, op.ours, rank, count);
  Bytes out = output(type.ours, count);
  EXPECT_NCCL(
      ncclReduce(in.data(), rank == root ? out.data() : nullptr, count, type.nccl, op.nccl, root, comm, nullptr));
  if (rank == root) {
    EXPECT_EQ(compare_reduced(type.ours, op.ours, ranks, out.data(), count), "");
  }
}

void check_reduce_scatter(ncclComm_t comm, int rank, int ranks, NcclType type, NcclOp op, std::size_t count) {
  const Bytes in = make_input(type.ours, op.ours, rank, count * static_cast<std::size_t>(ranks));
  Bytes out = output(type.ours, count);
  EXPECT_NCCL(ncclReduceScatter(in.data(), out.data(), count, type.nccl, op.nccl, comm, nullptr));
  EXPECT_EQ(compare_reduced(type.ours, op.ours, ranks, out.data(), count, count * static_cast<std::size_t>(rank)), "");
}

TEST(NcclCollectives, ReduceEveryTypeAndOperation) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    run_nccl_ranks(ranks, [&](ncclComm_t comm, int rank) {
      for (const NcclType type : kNcclTypes) {
        for (const NcclOp op : kNcclOps) {
          for (const std::size_t count : kCounts) {
            SCOPED_TRACE(std::string(to_string(type.ours)) + " " + std::string(to_string(op.ours)) + " count " +
                         std::to_string(count) + " of " + std::to_string(ranks));
            check_all_reduce(comm, rank, ranks, type, op, count);
            check_reduce(comm, rank, ranks, type, op, count);
            check_reduce_scatter(comm, rank, ranks, type, op, count);
          }
        }
      }
    });
  }
}

void check_from_root(ncclComm_t comm, int rank, int ranks, NcclType type, std::size_t count, int root) {
  const Bytes own = make_input(type.ours, ReduceOp::sum, rank, count);
  const Bytes all = all_inputs(type.ours, ranks, count);
  Bytes out = output(type.ours, count);
  EXPECT_NCCL(ncclBroadcast(own.data(), out.data(), count, type.nccl, root, comm, nullptr));
  EXPECT_EQ(compare_copied(type.ours, ReduceOp::sum, root, out.data(), count), "");
  Bytes same = own;
  EXPECT_NCCL(ncclBcast(same.data(), count, type.nccl, root, comm, nullptr));
  EXPECT_EQ(same, out);
  Bytes part = output(type.ours, count);
  EXPECT_NCCL(ncclScatter(rank == root ? all.data() : nullptr, part.data(), count, type.nccl, root, comm, nullptr));
  EXPECT_EQ(part, own);
  Bytes gathered = output(type.ours, count * static_cast<std::size_t>(ranks));
  EXPECT_NCCL(ncclGather(own.data(), rank == root ? gathered.data() : nullptr, count, type.nccl, root, comm, nullptr));
  if (rank == root) {
    EXPECT_EQ(gathered, all);
  }
}

void check_among_all(ncclComm_t comm, int rank, int ranks, NcclType type, std::size_t count) {
  const std::size_t part = count * size_of(type.ours);
  const Bytes all = all_inputs(type.ours, ranks, count);
  Bytes out = output(type.ours, count * static_cast<std::size_t>(ranks));
  std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(part * static_cast<std::size_t>(rank)), part,
              out.begin() + static_cast<std::ptrdiff_t>(part * static_cast<std::size_t>(rank)));
  // In place, as NCCL defines it.
  EXPECT_NCCL(
      ncclAllGather(out.data() + part * static_cast<std::size_t>(rank), out.data(), count, type.nccl, comm, nullptr));
  EXPECT_EQ(out, all);
  // Rank s gives everybody its own input: so everybody gets all inputs.
  Bytes in;
  for (int to = 0; to < ranks; ++to) {
    const Bytes own = make_input(type.ours, ReduceOp::sum, rank, count);
    in.insert(in.end(), own.begin(), own.end());
  }
  Bytes got = output(type.ours, count * static_cast<std::size_t>(ranks));
  EXPECT_NCCL(ncclAlltoAll(in.data(), got.data(), count, type.nccl, comm, nullptr));
  EXPECT_EQ(got, all);
}

TEST(NcclCollectives, MoveEveryType) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    run_nccl_ranks(ranks, [&](ncclComm_t comm, int rank) {
      for (const NcclType type : kNcclTypes) {
        for (const std::size_t count : kCounts) {
          SCOPED_TRACE(std::string(to_string(type.ours)) + " count " + std::to_string(count));
          check_from_root(comm, rank, ranks, type, count, static_cast<int>(count) % ranks);
          check_among_all(comm, rank, ranks, type, count);
        }
      }
    });
  }
}

TEST(NcclCollectives, LargeBuffers) {
  constexpr std::size_t kCount = (std::size_t{3} << 20) + 5;
  run_nccl_ranks(3, [&](ncclComm_t comm, int rank) {
    check_all_reduce(comm, rank, 3, {ncclFloat32, DataType::f32}, {ncclSum, ReduceOp::sum}, kCount);
  });
}

TEST(NcclCollectives, PreMultipliedSums) {
  run_nccl_ranks(4, [&](ncclComm_t comm, int rank) {
    const float own = 0.5F * static_cast<float>(rank + 1);
    float scalar = own;
    ncclRedOp_t immediate;
    ncclRedOp_t deferred;
    ASSERT_NCCL(ncclRedOpCreatePreMulSum(&immediate, &scalar, ncclFloat32, ncclScalarHostImmediate, comm));
    ASSERT_NCCL(ncclRedOpCreatePreMulSum(&deferred, &scalar, ncclFloat32, ncclScalarDevice, comm));
    scalar = 2 * own;  // Only the deferred one reads it now.
    std::vector<float> in(100, static_cast<float>(rank + 10));
    std::vector<float> out(in.size());
    for (const auto& [op, factor] : {std::pair{immediate, 0.5F}, std::pair{deferred, 1.0F}}) {
      float expected = 0;
      for (int r = 0; r < 4; ++r) expected += factor * static_cast<float>(r + 1) * static_cast<float>(r + 10);
      EXPECT_NCCL(ncclAllReduce(in.data(), out.data(), in.size(), ncclFloat32, op, comm, nullptr));
      EXPECT_EQ(out, std::vector<float>(in.size(), expected));
    }
    EXPECT_EQ(ncclAllReduce(in.data(), out.data(), 50, ncclFloat64, immediate, comm, nullptr), ncclInvalidArgument);
    EXPECT_NCCL(ncclRedOpDestroy(immediate, comm));
    EXPECT_EQ(ncclAllReduce(in.data(), out.data(), in.size(), ncclFloat32, immediate, comm, nullptr),
              ncclInvalidArgument);
    EXPECT_NCCL(ncclRedOpDestroy(deferred, comm));
  });
}

}  // namespace
}  // namespace trireme::test
