// Discovery: what this host is made of, as a Topology.
//
// Processors and memory come from hwloc; PCI devices, network interfaces, RDMA devices
// with their ports, link speeds and GIDs from sysfs; GPUs' names and NVLinks from NVML,
// loaded at run time. Nothing is required: what a machine lacks is not in the graph.
// Thread safety: all functions.
#pragma once

#include <string>

#include <trireme/base/status.h>
#include <trireme/topology/topology.h>

namespace trireme {

struct DiscoveryOptions {
  // Where sysfs is mounted, without "/sys". Anything but "" is a recorded or made-up
  // machine: its processors are then read from sysfs too, not from hwloc.
  std::string root;
  // NVML's library; "" does without GPU details.
  std::string nvml_library = "libnvidia-ml.so.1";
};

// Errors: unavailable when neither hwloc nor sysfs shows a processor.
Result<Topology> discover_host(const DiscoveryOptions& options = {});

}  // namespace trireme
