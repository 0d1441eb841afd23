#include "collectives/nccl_interface/config.h"

#include <strings.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include <fmt/core.h>

namespace trireme::nccl {
namespace {

constexpr std::size_t kSmallest = offsetof(Config, blocking) + sizeof(int);
// NCCL 2.14's structure ends in padding where later ones have cgaClusterSize.
constexpr std::size_t kSizeOf2_14 = offsetof(Config, cga_cluster_size) + sizeof(int);

struct Member {
  const char* name;
  std::size_t offset;
  int low;
  int high;
};

constexpr Member kMembers[] = {
    {"blocking", offsetof(Config, blocking), 0, 1},
    {"cgaClusterSize", offsetof(Config, cga_cluster_size), 0, 8},
    {"minCTAs", offsetof(Config, min_ctas), 1, INT_MAX},
    {"maxCTAs", offsetof(Config, max_ctas), 1, INT_MAX},
    {"splitShare", offsetof(Config, split_share), 0, 1},
    {"trafficClass", offsetof(Config, traffic_class), INT_MIN, INT_MAX},
    {"collnetEnable", offsetof(Config, collnet_enable), 0, 1},
    {"CTAPolicy", offsetof(Config, cta_policy), 0, 3},
    {"shrinkShare", offsetof(Config, shrink_share), 0, 1},
    {"nvlsCTAs", offsetof(Config, nvls_ctas), 1, INT_MAX},
    {"nChannelsPerNetPeer", offsetof(Config, channels_per_net_peer), 1, 1024},
    {"nvlinkCentricSched", offsetof(Config, nvlink_centric_schedule), INT_MIN, INT_MAX},
};

// All members undefined.
Config undefined() {
  Config config{};
  for (const Member& member : kMembers) {
    std::memcpy(reinterpret_cast<char*>(&config) + member.offset, &kUndefined, sizeof kUndefined);
  }
  return config;
}

int value_of(const Config& config, const Member& member) {
  int value = 0;
  std::memcpy(&value, reinterpret_cast<const char*>(&config) + member.offset, sizeof value);
  return value;
}

Outcome check(const Config& config) {
  for (const Member& member : kMembers) {
    const int value = value_of(config, member);
    if (value == kUndefined || (value >= member.low && value <= member.high)) continue;
    return bad_argument(fmt::format("ncclConfig_t::{} is {}: expected {} to {}, or NCCL_CONFIG_UNDEF_INT", member.name,
                                    value, member.low, member.high));
  }
  if (config.min_ctas != kUndefined && config.max_ctas != kUndefined && config.min_ctas > config.max_ctas) {
    return bad_argument(
        fmt::format("ncclConfig_t::minCTAs is {}, above maxCTAs, {}", config.min_ctas, config.max_ctas));
  }
  if (config.net_name == nullptr) return {};
  for (const char* known : {"Socket", "IB"}) {
    if (::strcasecmp(config.net_name, known) == 0) return {};
  }
  return bad_usage(
      fmt::format("ncclConfig_t::netName is \"{}\": network plugins are not loaded here; leave it undefined, or "
                  "say Socket or IB (TRIREME_TRANSPORT forces a path)",
                  config.net_name));
}

}  // namespace

Outcome read_config(const Config* config, const Settings* parent, Settings& settings) {
  settings = parent != nullptr ? *parent : Settings();
  if (config == nullptr) return {};
  if (config->magic != kConfigMagic || config->size < kSmallest || config->size > 4096) {
    return bad_argument(
        fmt::format("the ncclConfig_t (size {}, magic {:#x}) was not initialised: begin with NCCL_CONFIG_INITIALIZER",
                    config->size, config->magic));
  }
  Config own = undefined();
  const std::size_t known = config->size == kSizeOf2_14 ? kSmallest : std::min(config->size, sizeof own);
  std::memcpy(&own, config, known);
  const Outcome checked = check(own);
  if (!checked.is_ok()) return checked;
  if (own.blocking != kUndefined) settings.blocking = own.blocking == 1;
  if (own.communicator_name != nullptr) settings.name = own.communicator_name;
  return {};
}

}  // namespace trireme::nccl
