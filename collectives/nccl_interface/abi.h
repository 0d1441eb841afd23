// The binary interface of NCCL 2.28 as this library serves it: values and layouts of
// nccl.h, in names of our own, so that it is built where NVIDIA's header is not installed.
// tests/collectives/nccl_interface compares both where it is.
//
// Handles (ncclComm_t) are opaque: what a program holds is a key of the registry.
#pragma once

#include <climits>
#include <cstddef>

namespace trireme::nccl {

inline constexpr int kVersion = 22809;  // 2.28.9, as ncclGetVersion tells it.

// ncclResult_t. C callers pass and get an int.
enum class Code : int {
  success = 0,
  unhandled_cuda_error,
  system_error,
  internal_error,
  invalid_argument,
  invalid_usage,
  remote_error,
  in_progress,
};
inline constexpr int kCodeCount = 8;

inline constexpr int kTypeCount = 12;    // ncclNumTypes
inline constexpr int kNamedOpCount = 5;  // ncclNumOps
inline constexpr int kScalarDevice = 0;
inline constexpr int kScalarHostImmediate = 1;
inline constexpr int kSplitNoColor = -1;
inline constexpr int kShrinkDefault = 0;
inline constexpr int kShrinkAbort = 1;
inline constexpr int kUndefined = INT_MIN;  // NCCL_CONFIG_UNDEF_INT

inline constexpr std::size_t kUniqueIdBytes = 128;
struct UniqueId {
  char internal[kUniqueIdBytes];
};

inline constexpr unsigned kConfigMagic = 0xcafebeef;
// ncclConfig_t of 2.28. Older programs hold a prefix of it, newer ones more; `size` says
// how much (config.h).
struct Config {
  std::size_t size;
  unsigned magic;
  unsigned version;
  int blocking;
  int cga_cluster_size;
  int min_ctas;
  int max_ctas;
  const char* net_name;
  int split_share;
  int traffic_class;
  const char* communicator_name;
  int collnet_enable;
  int cta_policy;
  int shrink_share;
  int nvls_ctas;
  int channels_per_net_peer;
  int nvlink_centric_schedule;
};

struct Team {  // ncclTeam_t of nccl_device.h.
  int ranks;
  int rank;
  int stride;
};

}  // namespace trireme::nccl

// What ncclComm_t points to, for C callers: never a real object.
struct ncclComm;
