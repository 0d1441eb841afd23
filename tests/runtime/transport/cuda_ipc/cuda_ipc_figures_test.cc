// Expected figures, from topologies made up.
#include "runtime/transport/cuda_ipc/cuda_ipc_figures.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

constexpr const char* kFirst = "0000:1a:00.0";
constexpr const char* kSecond = "0000:1b:00.0";

// A host with two GPUs under one PCIe bridge.
Topology two_gpus() {
  Topology host;
  host.vertices = {{0, -1, VertexKind::host, "node", -1, 0, ""},
                   {1, 0, VertexKind::numa_node, "numa 0", 0, 0, ""},
                   {2, 1, VertexKind::pci_bridge, "0000:00:01.0", -1, 0, ""},
                   {3, 2, VertexKind::gpu, kFirst, 0, 0, ""},
                   {4, 2, VertexKind::gpu, kSecond, 1, 0, ""}};
  return host;
}

TEST(CudaIpcFigures, NvlinkIsTakenBeforePcie) {
  Topology host = two_gpus();
  host.links.push_back({3, 4, LinkKind::nvlink, 450e9, 0.5, FigureSource::reported, 18, false, "NVLink 4"});
  const CudaIpcPath path = path_between_gpus("uuid", host, kFirst, kSecond);
  EXPECT_EQ(path.way, "cuda_ipc (NVLink)");
  EXPECT_DOUBLE_EQ(path.bytes_per_second, 360e9);
  EXPECT_GT(path.latency_us, 1);
  EXPECT_EQ(path.uuid, "uuid");
}

TEST(CudaIpcFigures, TheNarrowerPcieLinkDecides) {
  Topology host = two_gpus();
  host.links.push_back({2, 3, LinkKind::pci_express, 63e9, 0.5, FigureSource::reported, 1, false, ""});
  host.links.push_back({2, 4, LinkKind::pci_express, 31.5e9, 0.5, FigureSource::reported, 1, false, ""});
  const CudaIpcPath path = path_between_gpus("uuid", host, kFirst, kSecond);
  EXPECT_EQ(path.way, "cuda_ipc (PCIe)");
  EXPECT_DOUBLE_EQ(path.bytes_per_second, 31.5e9 * 0.8);
}

TEST(CudaIpcFigures, WhatTheTopologyDoesNotShowIsAssumedAndSaysSo) {
  const CudaIpcPath path = path_between_gpus("uuid", Topology(), kFirst, kSecond);
  EXPECT_GT(path.bytes_per_second, 0);
  EXPECT_NE(path.way.find("assumed"), std::string::npos) << path.way;
}

TEST(CudaIpcFigures, WithinAGpuEachByteIsReadAndWritten) {
  EXPECT_DOUBLE_EQ(path_within_gpu("uuid", 4800e9).bytes_per_second, 1920e9);
  EXPECT_GT(path_within_gpu("uuid", 0).bytes_per_second, 0);
}

}  // namespace
}  // namespace trireme
