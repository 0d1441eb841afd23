// The parts of discovery. Each adds what it finds and leaves out what is not there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <trireme/base/status.h>

#include "runtime/topology/graph_builder.h"

namespace trireme {

// Packages, NUMA nodes and cores below `host`. Cores are children of their NUMA node.
// Errors: unavailable.
Status add_processors_from_hwloc(GraphBuilder& graph, int host);
// The same from `sys`/devices/system. Errors: unavailable when it shows no processor.
Status add_processors_from_sysfs(GraphBuilder& graph, int host, const std::string& sys);

// GPUs, network interfaces and RDMA devices with the PCIe bridges above them, from
// `sys`/devices; virtual interfaces hang below the host.
void add_devices(GraphBuilder& graph, int host, const std::string& sys);

// What NVML says of one GPU.
struct NvmlGpu {
  struct NvLink {
    bool to_switch = false;
    std::string remote;  // PCI address of the far end, "0000:3b:00.0"; "" when hidden.
    int version = 0;     // NVLink generation, 0 when unknown.
  };
  std::string address;
  std::string name;
  std::uint64_t memory_bytes = 0;
  int pcie_generation = 0;  // The best that GPU and slot can do; 0 when unknown.
  int pcie_lanes = 0;
  std::vector<NvLink> links;
};
// In NVML's order. Empty when the library or the driver is not there.
std::vector<NvmlGpu> read_nvml(const std::string& library);
// Names, memory, PCIe and NVLinks of the GPUs; GPUs that sysfs did not show are added.
void add_nvlinks(GraphBuilder& graph, int host, const std::vector<NvmlGpu>& gpus);

// One line of a sysfs file without its end, "" when it cannot be read.
std::string read_line(const std::string& path);
// The number at the start of that line (0x... too), `fallback` when there is none.
long read_number(const std::string& path, long fallback);

}  // namespace trireme
