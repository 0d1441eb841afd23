#include "runtime/transport/cuda_ipc/cuda_ipc_figures.h"

#include <algorithm>

#include <fmt/core.h>

#include <trireme/topology/route.h>

namespace trireme {
namespace {

// Headers, flow control and turnarounds take a fifth of NVLink, PCIe and memory alike:
// copies reach about 360 of 450 GB/s over NVLink 4, and 25 of 31.5 over PCIe 4.0 x16.
constexpr double kEfficiency = 0.8;
// Enqueuing a copy, its event, and noticing it: what a transfer of no bytes takes.
constexpr double kCopyUs = 8;
constexpr double kUnknownMemory = 500e9;
constexpr double kUnknownPath = 10e9;  // PCIe 3.0 x16.

int find_gpu(const Topology& host, const std::string& pci_address) {
  for (const int id : host.of_kind(VertexKind::gpu)) {
    if (host.vertices[static_cast<std::size_t>(id)].name == pci_address) return id;
  }
  return -1;
}

}  // namespace

CudaIpcPath path_within_gpu(const std::string& uuid, double memory_bytes_per_second) {
  const double memory = memory_bytes_per_second > 0 ? memory_bytes_per_second : kUnknownMemory;
  return {uuid, memory / 2 * kEfficiency, kCopyUs, "within one GPU, each byte read and written"};
}

CudaIpcPath path_between_gpus(const std::string& uuid, const Topology& host, const std::string& from,
                              const std::string& to) {
  const int a = find_gpu(host, from);
  const int b = find_gpu(host, to);
  if (a >= 0 && b >= 0 && a != b) {
    for (const PathCandidate& candidate : consider_paths(host, a, b)) {
      if (!candidate.possible || candidate.name.rfind("cuda_ipc", 0) != 0) continue;
      return {uuid, candidate.bytes_per_second * kEfficiency, kCopyUs + candidate.latency_us, candidate.name};
    }
  }
  return {uuid, kUnknownPath, kCopyUs, "peer access as CUDA says; the way is not in the topology, figures assumed"};
}

}  // namespace trireme
