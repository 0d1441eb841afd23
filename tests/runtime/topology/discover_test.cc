// Discovery on made-up sysfs trees and a stand-in NVML, and on this machine.
#include <trireme/topology/discover.h>

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include <trireme/topology/format.h>
#include <trireme/topology/route.h>

#include "runtime/platform/api/files.h"

namespace trireme {
namespace {

class FakeMachine {
 public:
  FakeMachine() : root_(make_temporary_directory("trireme-sysfs").value()) {
    write("kernel/hostname", "node7");
    write("devices/system/node/online", "0-1");
    write("devices/system/cpu/online", "0-7");
    for (int cpu = 0; cpu < 8; ++cpu) {
      const std::string folder = "devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
      write(folder + "physical_package_id", std::to_string(cpu / 4));
      write(folder + "core_id", std::to_string(cpu % 4 / 2));  // Two threads a core.
    }
    for (int node = 0; node < 2; ++node) {
      const std::string folder = "devices/system/node/node" + std::to_string(node) + "/";
      write(folder + "cpulist", node == 0 ? "0-3" : "4-7");
      write(folder + "meminfo", "Node 0 MemTotal:       1024 kB\nNode 0 MemFree: 1 kB");
    }
  }
  ~FakeMachine() { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path full = root_ + "/sys/" + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text << "\n";
  }
  // A PCI device at `path` below devices/, e.g. "pci0000:00/0000:00:01.0".
  void pci(const std::string& path, const std::string& kind, int numa, const std::string& width = "16") {
    write("devices/" + path + "/class", kind);
    write("devices/" + path + "/vendor", "0x10de");
    write("devices/" + path + "/numa_node", std::to_string(numa));
    write("devices/" + path + "/current_link_speed", "32.0 GT/s PCIe");
    write("devices/" + path + "/current_link_width", width);
  }
  void rdma(const std::string& pci_path, const std::string& name, const std::string& layer, const std::string& rate) {
    std::filesystem::create_directories(root_ + "/sys/devices/" + pci_path + "/infiniband/" + name);
    const std::string port = "class/infiniband/" + name + "/ports/1/";
    write(port + "state", "4: ACTIVE");
    write(port + "rate", rate);
    write(port + "link_layer", layer);
    write(port + "gids/0", "fe80:0000:0000:0000:0000:0000:0000:0001");
    write(port + "gid_attrs/types/0", "RoCE v2");
    write(port + "gids/3", "0000:0000:0000:0000:0000:ffff:0a00:0001");
    write(port + "gid_attrs/types/3", "RoCE v2");
  }
  Topology discover(const std::string& nvml = "") const {
    const Result<Topology> topology = discover_host({root_, nvml});
    EXPECT_TRUE(topology.is_ok()) << topology.status().to_string();
    return topology.is_ok() ? *topology : Topology();
  }

 private:
  std::string root_;
};

// Two sockets; on the first a switch with a GPU and an RDMA NIC and, beside it, a GPU of
// its own; on the second a GPU and a RoCE NIC with its interface.
void furnish(FakeMachine& machine) {
  machine.pci("pci0000:00/0000:00:01.0", "0x060400", 0);
  machine.pci("pci0000:00/0000:00:01.0/0000:01:00.0", "0x060400", 0);
  machine.pci("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0", "0x060400", 0);
  machine.pci("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:10:00.0", "0x030200", 0);
  machine.pci("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0", "0x060400", 0);
  machine.pci("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:20:00.0", "0x020700", 0);
  machine.rdma("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:20:00.0", "mlx5_0", "InfiniBand",
               "400 Gb/sec (4X NDR)");
  machine.pci("pci0000:00/0000:00:02.0", "0x060400", 0);
  machine.pci("pci0000:00/0000:00:02.0/0000:11:00.0", "0x030200", 0, "8");
  machine.pci("pci0000:80/0000:80:01.0", "0x060400", 1);
  machine.pci("pci0000:80/0000:80:01.0/0000:12:00.0", "0x030200", 1);
  machine.pci("pci0000:80/0000:80:02.0", "0x060400", 1);
  machine.pci("pci0000:80/0000:80:02.0/0000:21:00.0", "0x020000", 1);
  machine.rdma("pci0000:80/0000:80:02.0/0000:21:00.0", "mlx5_1", "Ethernet", "100 Gb/sec (4X EDR)");
  machine.write("devices/pci0000:80/0000:80:02.0/0000:21:00.0/net/eth2/mtu", "9000");
  machine.write("class/net/eth2/speed", "100000");
  machine.write("class/net/eth2/operstate", "up");
  machine.write("class/net/lo/operstate", "unknown");
  machine.pci("pci0000:80/0000:80:03.0", "0x010802", 1);  // A disk: of no interest.
}

const Vertex& named(const Topology& topology, const std::string& name) {
  return topology.vertices[static_cast<std::size_t>(find_vertex(topology, name).value())];
}

TEST(Discover, ReadsProcessorsAndMemoryFromSysfs) {
  const FakeMachine machine;
  const Topology topology = machine.discover();
  EXPECT_EQ(topology.vertices[0].name, "node7");
  EXPECT_EQ(topology.of_kind(VertexKind::package).size(), 2u);
  ASSERT_EQ(topology.of_kind(VertexKind::numa_node).size(), 2u);
  EXPECT_EQ(topology.of_kind(VertexKind::core).size(), 4u);
  EXPECT_EQ(named(topology, "NUMA1").detail, "cpus 4-7");
  EXPECT_EQ(named(topology, "NUMA0").memory_bytes, 1024u * 1024u);
}

TEST(Discover, PlacesDevicesByTheirBridges) {
  FakeMachine machine;
  furnish(machine);
  const Topology topology = machine.discover();
  ASSERT_EQ(topology.of_kind(VertexKind::gpu).size(), 3u);
  const auto near = [&](const std::string& a, const std::string& b) {
    return proximity(topology, find_vertex(topology, a).value(), find_vertex(topology, b).value());
  };
  EXPECT_EQ(near("GPU0", "mlx5_0"), Proximity::pci_switch);
  EXPECT_EQ(near("GPU0", "GPU1"), Proximity::host_bridge);
  EXPECT_EQ(near("GPU0", "GPU2"), Proximity::system);
  EXPECT_EQ(near("GPU2", "mlx5_1"), Proximity::host_bridge);
  EXPECT_EQ(near("eth2", "mlx5_1"), Proximity::pci_switch);
  EXPECT_EQ(near("GPU0", "lo"), Proximity::system);
  const std::string matrix = format_matrix(topology);
  EXPECT_NE(matrix.find("PHB"), std::string::npos) << matrix;
  EXPECT_NE(matrix.find("4-7"), std::string::npos) << matrix;
}

TEST(Discover, ReadsSpeedsPortsAndGids) {
  FakeMachine machine;
  furnish(machine);
  const Topology topology = machine.discover();
  EXPECT_EQ(named(topology, "mlx5_0").detail, "port 1 active, InfiniBand");
  EXPECT_EQ(named(topology, "mlx5_1").detail, "port 1 active, RoCE v2 GID 3 (10.0.0.1)");
  EXPECT_EQ(named(topology, "eth2").detail, "up");
  const auto rate_to = [&](const std::string& device, VertexKind kind) {
    for (const Link& link : topology.links) {
      const bool joins = link.a == named(topology, device).id || link.b == named(topology, device).id;
      const int far = link.a == named(topology, device).id ? link.b : link.a;
      if (joins && topology.vertices[static_cast<std::size_t>(far)].kind == kind) return link.bytes_per_second;
    }
    return 0.0;
  };
  EXPECT_DOUBLE_EQ(rate_to("mlx5_0", VertexKind::network_switch), 50e9);
  EXPECT_DOUBLE_EQ(rate_to("eth2", VertexKind::network_switch), 12.5e9);
  EXPECT_NEAR(rate_to("GPU0", VertexKind::pci_bridge), 32e9 * 16 * 128 / 130 / 8, 1);
  EXPECT_NEAR(rate_to("GPU1", VertexKind::pci_bridge), 32e9 * 8 * 128 / 130 / 8, 1);
}

TEST(Discover, TakesNvlinksFromNvml) {
  FakeMachine machine;
  furnish(machine);
  const Topology topology = machine.discover(std::string(TRIREME_BINARY_DIR) + "/tests/libfake_nvml.so");
  ASSERT_EQ(topology.of_kind(VertexKind::gpu).size(), 4u) << "the GPU that sysfs hides is added";
  EXPECT_EQ(named(topology, "GPU0").name, "0000:10:00.0");
  EXPECT_EQ(named(topology, "GPU0").detail, "Stand-in GPU 0");
  EXPECT_EQ(named(topology, "GPU3").memory_bytes, 80ull << 30);
  EXPECT_EQ(nvlink_lanes(topology, named(topology, "GPU0").id, named(topology, "GPU1").id), 18);
  EXPECT_EQ(nvlink_lanes(topology, named(topology, "GPU2").id, named(topology, "GPU3").id), 4);
  EXPECT_EQ(nvlink_lanes(topology, named(topology, "GPU1").id, named(topology, "GPU2").id), 0);
  EXPECT_NE(format_matrix(topology).find("NV18"), std::string::npos);
  const Route route = Router(topology).route(named(topology, "GPU0").id, named(topology, "GPU1").id).value();
  EXPECT_DOUBLE_EQ(route.bytes_per_second, 450e9);
}

// sysfs shows the present speed, which is lower while a GPU idles.
TEST(Discover, TakesWhatPcieCanDoFromNvml) {
  FakeMachine machine;
  furnish(machine);
  machine.write("devices/pci0000:00/0000:00:02.0/current_link_speed", "2.5 GT/s PCIe");
  machine.write("devices/pci0000:00/0000:00:02.0/0000:11:00.0/current_link_speed", "2.5 GT/s PCIe");
  const Topology topology = machine.discover(std::string(TRIREME_BINARY_DIR) + "/tests/libfake_nvml.so");
  const auto above = [&](int id) {
    const int parent = topology.vertices[static_cast<std::size_t>(id)].parent;
    for (const Link& link : topology.links) {
      if (link.a == parent && link.b == id && link.kind == LinkKind::pci_express) return link.bytes_per_second;
    }
    return 0.0;
  };
  const double full = 32e9 * 16 * 128 / 130 / 8;
  const Vertex& gpu = named(topology, "GPU1");
  EXPECT_NEAR(above(gpu.id), full, 1);
  EXPECT_NEAR(above(gpu.parent), full, 1) << "the port's end of the same link";
  EXPECT_NEAR(above(named(topology, "GPU0").id), full, 1) << "NVML does not say: sysfs does";
  EXPECT_NEAR(above(named(topology, "GPU3").id), full, 1) << "a GPU that sysfs hides";
  EXPECT_TRUE(topology.check().is_ok());
}

TEST(Discover, SaysWhatIsMissing) {
  const Result<Topology> topology = discover_host({"/nonexistent", ""});
  ASSERT_FALSE(topology.is_ok());
  EXPECT_EQ(topology.status().code(), StatusCode::unavailable);
  EXPECT_NE(topology.status().message().find("/nonexistent/sys/devices/system/cpu/online"), std::string::npos);
}

// hwloc and our own reading of sysfs must see the same machine.
TEST(Discover, SysfsAgreesWithHwlocOnThisMachine) {
  const Result<Topology> by_hwloc = discover_host();
  const Result<Topology> by_sysfs = discover_host({"/.", ""});
  ASSERT_TRUE(by_hwloc.is_ok() && by_sysfs.is_ok());
  for (VertexKind kind : {VertexKind::numa_node, VertexKind::network_interface}) {
    EXPECT_EQ(by_hwloc->of_kind(kind).size(), by_sysfs->of_kind(kind).size());
  }
  EXPECT_GE(by_sysfs->of_kind(VertexKind::core).size(), by_hwloc->of_kind(VertexKind::core).size());
}

}  // namespace
}  // namespace trireme
