// Communicators: split, shrunk, revoked, aborted, non-blocking, made again and again.
#include <dirent.h>

#include <atomic>
#include <barrier>
#include <cstdint>
#include <string>

#include "tests/collectives/nccl_interface/nccl_ranks.h"

namespace trireme::test {
namespace {

int sum_over(ncclComm_t comm, int value) {
  EXPECT_NCCL(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, nullptr));
  return value;
}

// Until it is no longer in progress.
ncclResult_t settled(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    EXPECT_NCCL(ncclCommGetAsyncError(comm, &state));
    std::this_thread::yield();
  }
  return state;
}

TEST(NcclLifetime, AnswersQuestions) {
  run_nccl_ranks(3, [](ncclComm_t comm, int rank) {
    int value = -1;
    EXPECT_NCCL(ncclCommCount(comm, &value));
    EXPECT_EQ(value, 3);
    EXPECT_NCCL(ncclCommUserRank(comm, &value));
    EXPECT_EQ(value, rank);
    EXPECT_NCCL(ncclCommCuDevice(comm, &value));
    EXPECT_EQ(value, 0);
  });
  int version = 0;
  EXPECT_NCCL(ncclGetVersion(&version));
  EXPECT_EQ(version / 100, NCCL_VERSION_CODE / 100);
  EXPECT_STREQ(ncclGetErrorString(ncclSuccess), "no error");
}

TEST(NcclLifetime, InitAllNumbersDevices) {
  ncclComm_t comms[3] = {};
  const int devices[3] = {4, 2, 7};
  ASSERT_NCCL(ncclCommInitAll(comms, 3, devices));
  for (int r = 0; r < 3; ++r) {
    int device = -1;
    EXPECT_NCCL(ncclCommCuDevice(comms[r], &device));
    EXPECT_EQ(device, devices[r]);
    EXPECT_NCCL(ncclCommDestroy(comms[r]));
  }
}

TEST(NcclLifetime, Split) {
  run_nccl_ranks(5, [](ncclComm_t comm, int rank) {
    ncclComm_t half = nullptr;
    const int color = rank == 4 ? NCCL_SPLIT_NOCOLOR : rank % 2;
    ASSERT_NCCL(ncclCommSplit(comm, color, -rank, &half, nullptr));
    if (rank == 4) {
      EXPECT_EQ(half, nullptr);
      return;
    }
    int place = -1;
    EXPECT_NCCL(ncclCommUserRank(half, &place));
    EXPECT_EQ(place, rank < 2 ? 1 : 0);  // By key: the higher rank first.
    EXPECT_EQ(sum_over(half, rank), color == 0 ? 2 : 4);
    EXPECT_NCCL(ncclCommDestroy(half));
  });
}

TEST(NcclLifetime, OneThreadSplitsInAGroup) {
  Clique clique(4);
  ncclComm_t halves[4] = {};
  ASSERT_NCCL(ncclGroupStart());
  for (int r = 0; r < 4; ++r)
    EXPECT_NCCL(ncclCommSplit(clique.comms[static_cast<std::size_t>(r)], r / 2, r, &halves[r], nullptr));
  ASSERT_NCCL(ncclGroupEnd());
  int values[4] = {1, 2, 4, 8};
  ASSERT_NCCL(ncclGroupStart());
  for (int r = 0; r < 4; ++r)
    EXPECT_NCCL(ncclAllReduce(&values[r], &values[r], 1, ncclInt32, ncclSum, halves[r], nullptr));
  ASSERT_NCCL(ncclGroupEnd());
  EXPECT_EQ(values[0], 3);
  EXPECT_EQ(values[3], 12);
  for (ncclComm_t half : halves) EXPECT_NCCL(ncclCommDestroy(half));
}

TEST(NcclLifetime, Shrink) {
  run_nccl_ranks(4, [](ncclComm_t comm, int rank) {
    if (rank == 1) return;  // Excluded: it does not call.
    int excluded[] = {1};
    ncclComm_t rest = nullptr;
    ASSERT_NCCL(ncclCommShrink(comm, excluded, 1, &rest, nullptr, NCCL_SHRINK_DEFAULT));
    int place = -1;
    EXPECT_NCCL(ncclCommUserRank(rest, &place));
    EXPECT_EQ(place, rank == 0 ? 0 : rank - 1);
    EXPECT_EQ(sum_over(rest, rank), 5);
    EXPECT_NCCL(ncclCommDestroy(rest));
  });
}

TEST(NcclLifetime, RevokedThenShrunk) {
  std::barrier all_done(3);  // Revoking ends calls that others are still in.
  run_nccl_ranks(3, [&](ncclComm_t comm, int rank) {
    EXPECT_EQ(sum_over(comm, 1), 3);
    all_done.arrive_and_wait();
    if (rank == 2) return;
    int value = 1;
    if (rank == 0) {
      EXPECT_NCCL(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
      EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, nullptr), ncclInvalidUsage);
      EXPECT_EQ(ncclCommFinalize(comm), ncclInvalidUsage);
    }
    int excluded[] = {2};
    ncclComm_t rest = nullptr;
    ASSERT_NCCL(ncclCommShrink(comm, excluded, 1, &rest, nullptr, NCCL_SHRINK_ABORT));
    EXPECT_EQ(sum_over(rest, 1), 2);
    EXPECT_NCCL(ncclCommDestroy(rest));
  });
}

TEST(NcclLifetime, FinalizedIsUsedNoMore) {
  run_nccl_ranks(2, [](ncclComm_t comm, int) {
    EXPECT_EQ(sum_over(comm, 1), 2);
    EXPECT_NCCL(ncclCommFinalize(comm));
    EXPECT_EQ(settled(comm), ncclSuccess);
    int value = 1;
    EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, nullptr), ncclInvalidUsage);
  });
}

TEST(NcclLifetime, NonBlockingCallsAnswerLater) {
  ncclUniqueId id;
  ASSERT_NCCL(ncclGetUniqueId(&id));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comms[2] = {};
  // One thread, no group: only possible if no call waits.
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(ncclCommInitRankConfig(&comms[rank], 2, id, rank, &config), ncclInProgress);
  }
  int count = 0;
  for (ncclComm_t comm : comms) EXPECT_EQ(settled(comm), ncclSuccess);
  EXPECT_NCCL(ncclCommCount(comms[1], &count));
  EXPECT_EQ(count, 2);
  int values[2] = {1, 2};
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(ncclAllReduce(&values[rank], &values[rank], 1, ncclInt32, ncclSum, comms[rank], nullptr), ncclInProgress);
  }
  for (ncclComm_t comm : comms) EXPECT_EQ(settled(comm), ncclSuccess);
  EXPECT_EQ(values[0], 3);
  EXPECT_EQ(values[1], 3);
  // Alone in it, the first cannot end: a second call meanwhile is refused.
  EXPECT_EQ(ncclAllReduce(&values[0], &values[0], 1, ncclInt32, ncclSum, comms[0], nullptr), ncclInProgress);
  EXPECT_EQ(ncclAllReduce(&values[0], &values[0], 1, ncclInt32, ncclSum, comms[0], nullptr), ncclInvalidUsage);
  EXPECT_EQ(ncclAllReduce(&values[1], &values[1], 1, ncclInt32, ncclSum, comms[1], nullptr), ncclInProgress);
  for (ncclComm_t comm : comms) {
    EXPECT_EQ(settled(comm), ncclSuccess);
    EXPECT_NCCL(ncclCommDestroy(comm));
  }
}

TEST(NcclLifetime, AbortFreesWhoWaits) {
  ncclUniqueId id;
  ASSERT_NCCL(ncclGetUniqueId(&id));
  std::atomic<ncclComm_t> first{nullptr};
  std::atomic<int> inside{0};
  std::atomic<int> freed{0};
  std::barrier all_done(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      ncclComm_t comm = nullptr;
      ASSERT_NCCL(ncclCommInitRank(&comm, 3, id, rank));
      EXPECT_EQ(sum_over(comm, 1), 3);
      all_done.arrive_and_wait();
      if (rank == 0) first = comm;
      if (rank == 2) {  // It never comes.
        while (freed < 2) std::this_thread::yield();
        EXPECT_NCCL(ncclCommAbort(comm));
        return;
      }
      int value = 1;
      ++inside;
      const ncclResult_t result = ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, nullptr);
      ++freed;
      // Aborted means freed: a call that comes too late finds no communicator.
      if (rank == 0 && result == ncclInvalidArgument) return;
      EXPECT_EQ(result, ncclRemoteError);
      EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("ncclCommAbort"), std::string::npos);
      if (rank == 0) return;
      ncclResult_t state = ncclSuccess;
      EXPECT_NCCL(ncclCommGetAsyncError(comm, &state));
      EXPECT_EQ(state, ncclRemoteError);
      EXPECT_NCCL(ncclCommAbort(comm));
    });
  }
  while (inside < 2) std::this_thread::yield();
  EXPECT_NCCL(ncclCommAbort(first));
  for (std::thread& thread : threads) thread.join();
}

TEST(NcclLifetime, Memory) {
  run_nccl_ranks(2, [](ncclComm_t comm, int rank) {
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{5}, std::size_t{3} << 20}) {
      void* memory = nullptr;
      ASSERT_NCCL(ncclMemAlloc(&memory, bytes));
      ASSERT_NE(memory, nullptr);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % NCCL_WIN_REQUIRED_ALIGNMENT, 0U);
      if (bytes >= sizeof(int)) {
        void* handle = nullptr;
        EXPECT_NCCL(ncclCommRegister(comm, memory, bytes, &handle));
        *static_cast<int*>(memory) = rank + 1;
        EXPECT_NCCL(ncclAllReduce(memory, memory, 1, ncclInt32, ncclSum, comm, nullptr));
        EXPECT_EQ(*static_cast<int*>(memory), 3);
        EXPECT_NCCL(ncclCommDeregister(comm, handle));
      }
      EXPECT_NCCL(ncclMemFree(memory));
      EXPECT_EQ(ncclMemFree(memory), ncclInvalidArgument);
    }
    EXPECT_NCCL(ncclMemFree(nullptr));
  });
}

int open_descriptors() {
  int count = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

TEST(NcclLifetime, ManyCommunicatorsLeaveNothingBehind) {
  int before = 0;
  for (int i = 0; i < 24; ++i) {
    run_nccl_ranks(2, [](ncclComm_t comm, int) { EXPECT_EQ(sum_over(comm, 1), 2); });
    if (i == 3) before = open_descriptors();
  }
  // The last store may still be ending; a leak would show in every round.
  EXPECT_LE(open_descriptors(), before + 8);
}

}  // namespace
}  // namespace trireme::test
