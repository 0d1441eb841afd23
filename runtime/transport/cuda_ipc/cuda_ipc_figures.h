// What a copy between two GPUs of one host is expected to do, from what NVML, the PCI
// tree and the driver say of them. Pure functions.
#pragma once

#include <string>

#include <trireme/topology/topology.h>

#include "runtime/transport/cuda_ipc/cuda_ipc_wire.h"

namespace trireme {

// Within one GPU, of memory that reads or writes at `memory_bytes_per_second` (0: unknown).
CudaIpcPath path_within_gpu(const std::string& uuid, double memory_bytes_per_second);
// Between two GPUs, by PCI address ("0000:3b:00.0"): NVLink if there is any, else PCIe;
// assumed figures when the topology does not show them joined.
CudaIpcPath path_between_gpus(const std::string& uuid, const Topology& host, const std::string& from,
                              const std::string& to);

}  // namespace trireme
