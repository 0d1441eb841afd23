// Groups: one thread with several communicators, messages in any order, nesting, refusals.
#include <numeric>

#include "tests/collectives/nccl_interface/nccl_ranks.h"

namespace trireme::test {
namespace {

TEST(NcclGroup, OneThreadDrivesAllItsCommunicators) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    Clique clique(ranks);
    std::vector<std::vector<int>> data(static_cast<std::size_t>(ranks), std::vector<int>(1000));
    ASSERT_NCCL(ncclGroupStart());
    for (std::size_t r = 0; r < data.size(); ++r) {
      std::fill(data[r].begin(), data[r].end(), static_cast<int>(r) + 1);
      EXPECT_NCCL(ncclAllReduce(data[r].data(), data[r].data(), 1000, ncclInt32, ncclSum, clique.comms[r], nullptr));
    }
    ASSERT_NCCL(ncclGroupEnd());
    for (const auto& out : data) EXPECT_EQ(out, std::vector<int>(1000, ranks * (ranks + 1) / 2));
  }
}

TEST(NcclGroup, ReceivesMayComeBeforeSendsAndGoToOneself) {
  run_nccl_ranks(4, [](ncclComm_t comm, int rank) {
    std::vector<int> in(5, -1);
    std::vector<int> out(5, rank);
    ASSERT_NCCL(ncclGroupStart());
    for (int peer = 0; peer < 4; ++peer)
      EXPECT_NCCL(ncclRecv(&in[static_cast<std::size_t>(peer)], 1, ncclInt32, peer, comm, nullptr));
    for (int peer = 3; peer >= 0; --peer)
      EXPECT_NCCL(ncclSend(&out[static_cast<std::size_t>(peer)], 1, ncclInt32, peer, comm, nullptr));
    ASSERT_NCCL(ncclGroupEnd());
    EXPECT_EQ(in, (std::vector<int>{0, 1, 2, 3, -1}));
  });
}

TEST(NcclGroup, MessagesOutsideOfAGroup) {
  run_nccl_ranks(2, [](ncclComm_t comm, int rank) {
    std::vector<double> data(100'000);
    if (rank == 0) {
      std::iota(data.begin(), data.end(), 0.0);
      EXPECT_NCCL(ncclSend(data.data(), data.size(), ncclFloat64, 1, comm, nullptr));
      return;
    }
    EXPECT_NCCL(ncclRecv(data.data(), data.size(), ncclFloat64, 0, comm, nullptr));
    EXPECT_EQ(data[99'999], 99'999.0);
    EXPECT_EQ(data[1], 1.0);
  });
}

TEST(NcclGroup, TwoCommunicatorsInOppositeOrder) {
  ncclUniqueId ids[2];
  for (ncclUniqueId& id : ids) ASSERT_NCCL(ncclGetUniqueId(&id));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      ncclComm_t comms[2];
      for (int c = 0; c < 2; ++c) ASSERT_NCCL(ncclCommInitRank(&comms[c], 2, ids[c], rank));
      int values[2] = {1, 10};
      ASSERT_NCCL(ncclGroupStart());
      for (int i = 0; i < 2; ++i) {
        const int c = rank == 0 ? i : 1 - i;
        EXPECT_NCCL(ncclAllReduce(&values[c], &values[c], 1, ncclInt32, ncclSum, comms[c], nullptr));
      }
      ASSERT_NCCL(ncclGroupEnd());
      EXPECT_EQ(values[0], 2);
      EXPECT_EQ(values[1], 20);
      for (ncclComm_t comm : comms) EXPECT_NCCL(ncclCommDestroy(comm));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(NcclGroup, OneThreadMakesCommunicatorsInAGroup) {
  ncclUniqueId id;
  ASSERT_NCCL(ncclGetUniqueId(&id));
  ncclComm_t comms[3] = {};
  ASSERT_NCCL(ncclGroupStart());
  for (int rank = 0; rank < 3; ++rank) EXPECT_NCCL(ncclCommInitRank(&comms[rank], 3, id, rank));
  // Nothing may use them before the group has ended.
  int value = 0;
  ASSERT_NCCL(ncclGroupEnd());
  ASSERT_NCCL(ncclGroupStart());
  ASSERT_NCCL(ncclGroupStart());  // The inner end runs nothing.
  int values[3] = {1, 2, 3};
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_NCCL(ncclReduce(&values[rank], &value, 1, ncclInt32, ncclSum, 2, comms[rank], nullptr));
  }
  ASSERT_NCCL(ncclGroupEnd());
  EXPECT_EQ(value, 0);
  ASSERT_NCCL(ncclGroupEnd());
  EXPECT_EQ(value, 6);
  for (ncclComm_t comm : comms) EXPECT_NCCL(ncclCommDestroy(comm));
}

TEST(NcclGroup, ARefusedCallKeepsTheWholeGroupFromRunning) {
  Clique clique(2);
  int values[2] = {1, 2};
  ASSERT_NCCL(ncclGroupStart());
  EXPECT_NCCL(ncclAllReduce(&values[0], &values[0], 1, ncclInt32, ncclSum, clique.comms[0], nullptr));
  EXPECT_EQ(ncclAllReduce(&values[1], nullptr, 1, ncclInt32, ncclSum, clique.comms[1], nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
  EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("recvbuff is NULL"), std::string::npos);
  EXPECT_EQ(values[0], 1);
  // And the next one is not concerned.
  ASSERT_NCCL(ncclGroupStart());
  for (int r = 0; r < 2; ++r) {
    EXPECT_NCCL(ncclAllReduce(&values[r], &values[r], 1, ncclInt32, ncclSum, clique.comms[static_cast<std::size_t>(r)],
                              nullptr));
  }
  ASSERT_NCCL(ncclGroupEnd());
  EXPECT_EQ(values[0], 3);
}

TEST(NcclGroup, EndsAndSimulationsAreRefusedInWords) {
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  EXPECT_EQ(ncclGroupSimulateEnd(nullptr), ncclInvalidUsage);
  Clique clique(1);
  int value = 7;
  int out = 0;
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  ASSERT_NCCL(ncclGroupStart());
  EXPECT_NCCL(ncclAllReduce(&value, &out, 1, ncclInt32, ncclSum, clique.comms[0], nullptr));
  EXPECT_EQ(ncclGroupSimulateEnd(&info), ncclInvalidUsage);
  EXPECT_EQ(out, 0);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);  // It was closed.
}

}  // namespace
}  // namespace trireme::test
