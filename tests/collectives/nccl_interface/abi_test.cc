// Our description of NCCL's binary interface against NVIDIA's headers.
#include "collectives/nccl_interface/abi.h"

#include <gtest/gtest.h>
#include <nccl.h>

#include <cstddef>
#include <set>
#include <string>

#include "runtime/platform/api/files.h"
#include "tests/collectives/nccl_interface/symbols.h"

namespace trireme::nccl {
namespace {

#define SAME_MEMBER(ours, theirs)                                          \
  static_assert(offsetof(Config, ours) == offsetof(ncclConfig_t, theirs)); \
  static_assert(sizeof(Config::ours) == sizeof(ncclConfig_t::theirs))

SAME_MEMBER(size, size);
SAME_MEMBER(magic, magic);
SAME_MEMBER(version, version);
SAME_MEMBER(blocking, blocking);
SAME_MEMBER(cga_cluster_size, cgaClusterSize);
SAME_MEMBER(min_ctas, minCTAs);
SAME_MEMBER(max_ctas, maxCTAs);
SAME_MEMBER(net_name, netName);
SAME_MEMBER(split_share, splitShare);
SAME_MEMBER(traffic_class, trafficClass);
SAME_MEMBER(communicator_name, commName);
SAME_MEMBER(collnet_enable, collnetEnable);
SAME_MEMBER(cta_policy, CTAPolicy);
SAME_MEMBER(shrink_share, shrinkShare);
SAME_MEMBER(nvls_ctas, nvlsCTAs);
SAME_MEMBER(channels_per_net_peer, nChannelsPerNetPeer);
SAME_MEMBER(nvlink_centric_schedule, nvlinkCentricSched);
static_assert(sizeof(Config) == sizeof(ncclConfig_t));
static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId));
static_assert(sizeof(ncclResult_t) == sizeof(int) && sizeof(ncclDataType_t) == sizeof(int) &&
              sizeof(ncclRedOp_t) == sizeof(int) && sizeof(ncclScalarResidence_t) == sizeof(int));
static_assert(kVersion == NCCL_VERSION_CODE);
static_assert(kUndefined == NCCL_CONFIG_UNDEF_INT);
static_assert(kSplitNoColor == NCCL_SPLIT_NOCOLOR);
static_assert(kShrinkDefault == NCCL_SHRINK_DEFAULT && kShrinkAbort == NCCL_SHRINK_ABORT);
static_assert(kScalarDevice == ncclScalarDevice && kScalarHostImmediate == ncclScalarHostImmediate);
static_assert(kTypeCount == ncclNumTypes && kNamedOpCount == ncclNumOps && kCodeCount == ncclNumResults);
static_assert(static_cast<int>(Code::unhandled_cuda_error) == ncclUnhandledCudaError);
static_assert(static_cast<int>(Code::system_error) == ncclSystemError);
static_assert(static_cast<int>(Code::internal_error) == ncclInternalError);
static_assert(static_cast<int>(Code::invalid_argument) == ncclInvalidArgument);
static_assert(static_cast<int>(Code::invalid_usage) == ncclInvalidUsage);
static_assert(static_cast<int>(Code::remote_error) == ncclRemoteError);
static_assert(static_cast<int>(Code::in_progress) == ncclInProgress);

TEST(NcclAbi, TheInitializersMagicIsOurs) {
  const ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  EXPECT_EQ(config.magic, kConfigMagic);
}

// The functions that nccl.h declares, by looking for "ncclX(" and "pncclX(" outside of
// comments.
std::set<std::string> declared_in(const std::string& header) {
  std::set<std::string> names;
  bool comment = false;
  for (std::size_t at = 0; at < header.size(); ++at) {
    if (header.compare(at, 2, comment ? "*/" : "/*") == 0) comment = !comment;
    const bool begins =
        at == 0 || (std::isalnum(static_cast<unsigned char>(header[at - 1])) == 0 && header[at - 1] != '_');
    if (comment || !begins) continue;
    std::size_t end = at;
    while (end < header.size() && std::isalnum(static_cast<unsigned char>(header[end])) != 0) ++end;
    const std::string name = header.substr(at, end - at);
    const bool ours = name.rfind("nccl", 0) == 0 || name.rfind("pnccl", 0) == 0;
    if (ours && end < header.size() && header[end] == '(') names.insert(name);
  }
  return names;
}

TEST(NcclAbi, TheListOfSymbolsHoldsAllThatTheHeaderDeclares) {
  const auto header = read_file(TRIREME_NCCL_HEADER);
  ASSERT_TRUE(header.is_ok()) << header.status().to_string();
  const std::set<std::string> declared = declared_in(header.value());
  const std::set<std::string> listed = test::listed_symbols(TRIREME_SOURCE_DIR);
  EXPECT_GT(declared.size(), 80U);
  for (const std::string& name : declared) EXPECT_EQ(listed.count(name), 1U) << name << " is not in symbols.txt";
}

}  // namespace
}  // namespace trireme::nccl
