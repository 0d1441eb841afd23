// Which RDMA ports a rank uses and in what order: pure functions of what sysfs says about
// devices and of TRIREME_VERBS_DEVICES.
//
// The ports nearest to the rank's processor or GPU come first; ranks of one host that are
// equally near to several ports start with different ones.
// Thread safety: free functions and values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <trireme/base/status.h>

#include "runtime/transport/verbs/verbs_wire.h"

namespace trireme {

// Where a device sits.
struct VerbsPlace {
  std::string pci_path;    // sysfs, resolved; "" for software devices.
  std::vector<int> cores;  // Those of its NUMA node; empty: unknown.
};
// Where the rank works.
struct VerbsRankPlace {
  std::string gpu_pci_path;  // Of the GPU it uses; "" without one.
  std::vector<int> cores;    // That it may run on.
  int local_rank = 0;
};

// Smaller is nearer: PCIe steps to the GPU if there is one, then whether the device's
// NUMA node holds one of the rank's cores.
int verbs_distance(const VerbsPlace& device, const VerbsRankPlace& rank);

struct VerbsCandidate {
  VerbsPortInfo info;
  VerbsPlace place;
};
// The ports to use, best first: the nearest of the fastest kind (no software device
// beside real ones), rotated by local rank among equals.
std::vector<VerbsPortInfo> order_verbs_ports(std::vector<VerbsCandidate> candidates, const VerbsRankPlace& rank);

// Does `filter` ("mlx5_0,mlx5_1:1", "!mlx5_2", "" for all) admit the port?
// Errors: invalid_argument for a filter that is not of this form.
Result<bool> verbs_filter_admits(std::string_view filter, std::string_view device, int port);

// "0-3,8" as sysfs writes lists of processors. Malformed parts are left out.
std::vector<int> parse_core_list(std::string_view text);

// What this machine says, from sysfs and the scheduler.
VerbsPlace find_verbs_place(const std::string& device);
VerbsRankPlace find_rank_place(int local_rank);

}  // namespace trireme
