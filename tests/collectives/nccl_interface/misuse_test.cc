// What is refused: the code, and a sentence that names the mistake.
#include <cstring>
#include <string>

#include "tests/collectives/nccl_interface/nccl_ranks.h"

namespace trireme::test {
namespace {

struct Misuse {
  const char* name;
  std::function<ncclResult_t(ncclComm_t)> call;
  ncclResult_t code;
  const char* words;
};

ncclConfig_t config_with(int ncclConfig_t::*member, int value) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.*member = value;
  return config;
}

ncclResult_t init_with(ncclConfig_t config) {
  ncclUniqueId id;
  EXPECT_NCCL(ncclGetUniqueId(&id));
  ncclComm_t made = nullptr;
  const ncclResult_t result = ncclCommInitRankConfig(&made, 1, id, 0, &config);
  if (result == ncclSuccess) {
    EXPECT_NCCL(ncclCommDestroy(made));
  } else {
    EXPECT_EQ(made, nullptr);
  }
  return result;
}

ncclResult_t all_reduce(ncclComm_t comm, const void* in, void* out, std::size_t count, int type, int op) {
  return ncclAllReduce(in, out, count, static_cast<ncclDataType_t>(type), static_cast<ncclRedOp_t>(op), comm, nullptr);
}

alignas(64) char buffer[4096];
int not_a_comm[64];

const std::vector<Misuse>& communicator_misuses() {
  static const std::vector<Misuse> table = {
      {"null communicator", [](ncclComm_t) { return all_reduce(nullptr, buffer, buffer, 1, 7, 0); },
       ncclInvalidArgument, "NULL"},
      {"no communicator",
       [](ncclComm_t) { return all_reduce(reinterpret_cast<ncclComm_t>(not_a_comm), buffer, buffer, 1, 7, 0); },
       ncclInvalidArgument, "there is no communicator"},
      {"type", [](ncclComm_t c) { return all_reduce(c, buffer, buffer, 1, 12, 0); }, ncclInvalidArgument,
       "ncclDataType_t"},
      {"negative type", [](ncclComm_t c) { return all_reduce(c, buffer, buffer, 1, -1, 0); }, ncclInvalidArgument,
       "ncclDataType_t"},
      {"operation", [](ncclComm_t c) { return all_reduce(c, buffer, buffer, 1, 7, 5); }, ncclInvalidArgument,
       "reduction operator 5"},
      {"null input", [](ncclComm_t c) { return all_reduce(c, nullptr, buffer, 1, 7, 0); }, ncclInvalidArgument,
       "sendbuff is NULL"},
      {"null output", [](ncclComm_t c) { return all_reduce(c, buffer, nullptr, 1, 7, 0); }, ncclInvalidArgument,
       "recvbuff is NULL"},
      {"overlap", [](ncclComm_t c) { return all_reduce(c, buffer, buffer + 4, 100, 7, 0); }, ncclInvalidArgument,
       "overlap"},
      {"count", [](ncclComm_t c) { return all_reduce(c, buffer, buffer, SIZE_MAX / 2, 8, 0); }, ncclInvalidArgument,
       "exceeds"},
      {"root", [](ncclComm_t c) { return ncclBroadcast(buffer, buffer, 1, ncclInt8, 2, c, nullptr); },
       ncclInvalidArgument, "root 2"},
      {"peer", [](ncclComm_t c) { return ncclSend(buffer, 1, ncclInt8, -1, c, nullptr); }, ncclInvalidArgument,
       "peer -1"},
      {"built-in operator", [](ncclComm_t c) { return ncclRedOpDestroy(ncclSum, c); }, ncclInvalidArgument, "built-in"},
      {"unknown operator", [](ncclComm_t c) { return ncclRedOpDestroy(static_cast<ncclRedOp_t>(77), c); },
       ncclInvalidArgument, "77"},
      {"window",
       [](ncclComm_t c) {
         ncclWindow_t window;
         return ncclCommWindowRegister(c, buffer, 4096, &window, 0);
       },
       ncclInvalidUsage, "windows"},
      {"color",
       [](ncclComm_t c) {
         ncclComm_t made;
         return ncclCommSplit(c, -7, 0, &made, nullptr);
       },
       ncclInvalidArgument, "NCCL_SPLIT_NOCOLOR"},
      {"shrink nobody",
       [](ncclComm_t c) {
         ncclComm_t made;
         return ncclCommShrink(c, nullptr, 0, &made, nullptr, NCCL_SHRINK_DEFAULT);
       },
       ncclInvalidArgument, "excludeRanksCount"},
      {"registered buffer", [](ncclComm_t c) { return ncclCommDeregister(c, buffer); }, ncclInvalidArgument,
       "registered buffer"},
      {"revoke flags", [](ncclComm_t c) { return ncclCommRevoke(c, 1); }, ncclInvalidArgument, "revokeFlags"},
  };
  return table;
}

const std::vector<Misuse>& other_misuses() {
  static const std::vector<Misuse> table = {
      {"garbage id",
       [](ncclComm_t) {
         ncclUniqueId id;
         std::memset(&id, 0x41, sizeof id);
         ncclComm_t made;
         return ncclCommInitRank(&made, 2, id, 0);
       },
       ncclInvalidArgument, "ncclGetUniqueId"},
      {"rank beyond",
       [](ncclComm_t) {
         ncclUniqueId id{};
         ncclComm_t made;
         return ncclCommInitRank(&made, 2, id, 2);
       },
       ncclInvalidArgument, "rank 2 of 2"},
      {"no config",
       [](ncclComm_t) {
         ncclConfig_t config{};
         return init_with(config);
       },
       ncclInvalidArgument, "NCCL_CONFIG_INITIALIZER"},
      {"blocking", [](ncclComm_t) { return init_with(config_with(&ncclConfig_t::blocking, 2)); }, ncclInvalidArgument,
       "blocking"},
      {"cluster", [](ncclComm_t) { return init_with(config_with(&ncclConfig_t::cgaClusterSize, 9)); },
       ncclInvalidArgument, "cgaClusterSize"},
      {"network",
       [](ncclComm_t) {
         ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
         config.netName = "carrier-pigeon";
         return init_with(config);
       },
       ncclInvalidUsage, "carrier-pigeon"},
      {"foreign memory", [](ncclComm_t) { return ncclMemFree(buffer); }, ncclInvalidArgument, "ncclMemAlloc"},
      {"no version", [](ncclComm_t) { return ncclGetVersion(nullptr); }, ncclInvalidArgument, "version"},
      {"no devices",
       [](ncclComm_t) {
         ncclComm_t made;
         return ncclCommInitAll(&made, 0, nullptr);
       },
       ncclInvalidArgument, "ndev"},
  };
  return table;
}

void expect_refused(const Misuse& misuse, ncclComm_t comm) {
  SCOPED_TRACE(misuse.name);
  EXPECT_EQ(misuse.call(comm), misuse.code);
  EXPECT_NE(std::string(ncclGetLastError(nullptr)).find(misuse.words), std::string::npos) << ncclGetLastError(nullptr);
}

TEST(NcclMisuse, IsRefusedInWords) {
  Clique clique(2);
  for (const Misuse& misuse : communicator_misuses()) expect_refused(misuse, clique.comms[0]);
  for (const Misuse& misuse : other_misuses()) expect_refused(misuse, clique.comms[0]);
  // None of it broke the communicators.
  int values[2] = {1, 2};
  ASSERT_NCCL(ncclGroupStart());
  for (int r = 0; r < 2; ++r) {
    EXPECT_NCCL(ncclAllReduce(&values[r], &values[r], 1, ncclInt32, ncclSum, clique.comms[static_cast<std::size_t>(r)],
                              nullptr));
  }
  ASSERT_NCCL(ncclGroupEnd());
  EXPECT_EQ(values[1], 3);
}

TEST(NcclMisuse, ADestroyedCommunicatorIsNoCommunicator) {
  ncclComm_t comm = nullptr;
  ASSERT_NCCL(ncclCommInitAll(&comm, 1, nullptr));
  ASSERT_NCCL(ncclCommDestroy(comm));
  int count = 0;
  EXPECT_EQ(ncclCommCount(comm, &count), ncclInvalidArgument);
  EXPECT_EQ(ncclCommDestroy(comm), ncclInvalidArgument);
  EXPECT_NCCL(ncclCommDestroy(nullptr));
}

TEST(NcclMisuse, AnOperatorOfAnotherCommunicator) {
  Clique one(1);
  Clique other(1);
  float scalar = 2;
  ncclRedOp_t op;
  ASSERT_NCCL(ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat32, ncclScalarHostImmediate, one.comms[0]));
  float value = 1;
  EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat32, op, other.comms[0], nullptr), ncclInvalidArgument);
  EXPECT_NCCL(ncclAllReduce(&value, &value, 1, ncclFloat32, op, one.comms[0], nullptr));
  EXPECT_EQ(value, 2);
}

TEST(NcclMisuse, RanksThatDisagreeAreToldSo) {
  run_nccl_ranks(2, [](ncclComm_t comm, int rank) {
    float data[8] = {};
    const ncclResult_t result = ncclAllReduce(data, data, rank == 0 ? 8 : 7, ncclFloat32, ncclSum, comm, nullptr);
    EXPECT_EQ(result, ncclInvalidUsage);
    const std::string words = ncclGetLastError(comm);
    EXPECT_NE(words.find("count=7"), std::string::npos) << words;
    EXPECT_NE(words.find("count=8"), std::string::npos) << words;
    ncclResult_t state = ncclSuccess;
    EXPECT_NCCL(ncclCommGetAsyncError(comm, &state));
    EXPECT_EQ(state, ncclInvalidUsage);
  });
}

// Every size that ncclConfig_t has had, and one from the future.
TEST(NcclConfig, EverySizeIsRead) {
  for (const std::size_t size : {std::size_t{24}, std::size_t{40}, std::size_t{48}, std::size_t{56}, std::size_t{72},
                                 sizeof(ncclConfig_t), sizeof(ncclConfig_t) + 16}) {
    struct {
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      char later[64] = {0x7f};
    } wide;
    // Nothing past the end of an older structure may be read.
    if (size < sizeof(ncclConfig_t))
      std::memset(reinterpret_cast<char*>(&wide.config) + size, 0x7f, sizeof(ncclConfig_t) - size);
    wide.config.size = size;
    if (size == 24) wide.config.cgaClusterSize = 0x7f7f7f7f;  // Padding then.
    wide.config.blocking = 1;
    EXPECT_EQ(init_with(wide.config), ncclSuccess) << size << ": " << ncclGetLastError(nullptr);
    wide.config.blocking = 3;
    EXPECT_EQ(init_with(wide.config), ncclInvalidArgument) << size;
  }
}

}  // namespace
}  // namespace trireme::test
