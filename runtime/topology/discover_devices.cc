// Devices from sysfs: the PCI tree as the kernel lays it out in /sys/devices/pci*, and
// what hangs below its devices. Bridges above nothing of interest are left out.
#include <algorithm>
#include <cstdlib>
#include <span>
#include <vector>

#include <fmt/core.h>
#include <trireme/topology/roce_gid.h>

#include "runtime/platform/api/files.h"
#include "runtime/topology/discover_parts.h"

namespace trireme {
namespace {

constexpr long kClassVga = 0x0300;
constexpr long kClass3d = 0x0302;
constexpr long kClassAccelerator = 0x1200;
constexpr long kVendorNvidia = 0x10de;
constexpr long kVendorAmd = 0x1002;
constexpr int kDeepest = 32;  // PCI buses nest at most this deep here; guards against loops.

std::vector<std::string> names_in(const std::string& folder) {
  Result<std::vector<std::string>> names = list_directory(folder);
  return names.is_ok() ? std::move(names).value() : std::vector<std::string>();
}

// "0000:3b:00.0"
bool is_pci_address(const std::string& name) {
  if (name.size() != 12 || name[4] != ':' || name[7] != ':' || name[10] != '.') return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || c == ':' || c == '.'; });
}

struct PciNode {
  std::string path;
  std::string name;
  bool is_gpu = false;
  std::vector<std::string> interfaces;
  std::vector<std::string> rdma;
  std::vector<PciNode> children;
  bool matters() const {
    return is_gpu || !interfaces.empty() || !rdma.empty() ||
           std::any_of(children.begin(), children.end(), [](const PciNode& child) { return child.matters(); });
  }
  // NUMA node of the nearest device below that knows; -1: none does.
  int numa_node() const {
    const long own = read_number(path + "/numa_node", -1);
    if (own >= 0) return static_cast<int>(own);
    for (const PciNode& child : children) {
      const int below = child.numa_node();
      if (below >= 0) return below;
    }
    return -1;
  }
};

bool is_gpu(const std::string& path) {
  const long kind = read_number(path + "/class", 0) >> 8;
  if (kind == kClass3d || kind == kClassAccelerator) return true;
  const long vendor = read_number(path + "/vendor", 0);
  return kind == kClassVga && (vendor == kVendorNvidia || vendor == kVendorAmd);
}

PciNode read_node(const std::string& path, const std::string& name, int depth) {
  PciNode node{path, name, is_gpu(path), {}, {}, {}};
  for (const std::string& entry : names_in(path)) {
    if (is_pci_address(entry) && depth < kDeepest)
      node.children.push_back(read_node(path + "/" + entry, entry, depth + 1));
    if (entry.rfind("virtio", 0) == 0) {
      for (const std::string& interface : names_in(path + "/" + entry + "/net")) node.interfaces.push_back(interface);
    }
  }
  for (const std::string& interface : names_in(path + "/net")) node.interfaces.push_back(interface);
  node.rdma = names_in(path + "/infiniband");
  return node;
}

// Of the PCIe link above the device: rate times width, less the line code (8b/10b up to
// 5 GT/s, 128b/130b from 8 GT/s on).
double pcie_bytes_per_second(const std::string& path) {
  const double gigatransfers = std::strtod(read_line(path + "/current_link_speed").c_str(), nullptr);
  const long width = read_number(path + "/current_link_width", 0);
  if (gigatransfers <= 0 || width <= 0 || width > 64) return 0;
  const double code = gigatransfers < 6 ? 0.8 : 128.0 / 130.0;
  return gigatransfers * 1e9 * static_cast<double>(width) * code / 8;
}

class Devices {
 public:
  Devices(GraphBuilder& graph, int host, std::string sys) : graph_(graph), host_(host), sys_(std::move(sys)) {}

  void add() {
    for (const std::string& name : names_in(sys_ + "/devices")) {
      if (name.rfind("pci", 0) != 0) continue;
      const PciNode root = read_node(sys_ + "/devices/" + name, name, 0);
      if (root.matters()) add_node(root, graph_.numa_node(root.numa_node(), host_));
    }
    for (const std::string& name : names_in(sys_ + "/class/net")) {
      if (graph_.find(VertexKind::network_interface, name) < 0) add_interface(name, host_);
    }
    for (const std::string& name : names_in(sys_ + "/class/infiniband")) {
      if (graph_.find(VertexKind::rdma_device, name) < 0) add_rdma(name, host_);
    }
  }

 private:
  void add_node(const PciNode& node, int parent) {
    int own = parent;
    if (node.is_gpu) {
      own = graph_.add(parent, VertexKind::gpu, node.name, gpus_++);
    } else if (!node.children.empty()) {
      own = graph_.add(parent, VertexKind::pci_bridge, node.name);
    }
    const double speed = pcie_bytes_per_second(node.path);
    if (own != parent && speed > 0) graph_.link(parent, own, LinkKind::pci_express, speed, FigureSource::reported);
    for (const std::string& name : node.interfaces) link_device(add_interface(name, own), own, speed);
    for (const std::string& name : node.rdma) link_device(add_rdma(name, own), own, speed);
    for (const PciNode& child : node.children) {
      if (child.matters()) add_node(child, own);
    }
  }

  void link_device(int device, int parent, double speed) {
    if (speed > 0) graph_.link(parent, device, LinkKind::pci_express, speed, FigureSource::reported);
  }

  int add_interface(const std::string& name, int parent) {
    const std::string folder = sys_ + "/class/net/" + name;
    const int id = graph_.add(parent, VertexKind::network_interface, name);
    graph_.at(id).detail = read_line(folder + "/operstate");
    const double megabits = static_cast<double>(read_number(folder + "/speed", 0));
    if (megabits > 0) set_port(id, "ethernet", megabits * 1e6 / 8, 1);
    return id;
  }

  // How fast a device is on the network: its link to a switch that stands for whatever
  // its cables lead to.
  void set_port(int id, const std::string& network, double bytes_per_second, int ports) {
    int far = graph_.find(VertexKind::network_switch, network);
    if (far < 0) far = graph_.add(-1, VertexKind::network_switch, network);
    graph_.link(id, far, LinkKind::network, bytes_per_second, FigureSource::reported).lanes = ports;
  }

  int add_rdma(const std::string& name, int parent) {
    const int id = graph_.add(parent, VertexKind::rdma_device, name);
    const std::string folder = sys_ + "/class/infiniband/" + name + "/ports";
    double speed = 0;
    int active = 0;
    std::string detail;
    std::string network = "infiniband";
    for (const std::string& port : names_in(folder)) {
      const std::string state = read_line(folder + "/" + port + "/state");
      const double gigabits = std::strtod(read_line(folder + "/" + port + "/rate").c_str(), nullptr);
      const bool up = state.find("ACTIVE") != std::string::npos;
      detail += fmt::format("{}port {} {}{}", detail.empty() ? "" : "; ", port, up ? "active" : "down",
                            describe_port(folder + "/" + port));
      if (!up || gigabits <= 0) continue;
      if (read_line(folder + "/" + port + "/link_layer") == "Ethernet") network = "ethernet";
      speed += gigabits * 1e9 / 8;
      ++active;
    }
    graph_.at(id).detail = detail;
    if (active > 0) set_port(id, network, speed, active);
    return id;
  }

  std::string describe_port(const std::string& folder) const {
    if (read_line(folder + "/link_layer") != "Ethernet") return ", InfiniBand";
    std::vector<GidEntry> table;
    for (const std::string& index : names_in(folder + "/gids")) {
      const Result<std::array<std::uint8_t, 16>> gid = parse_gid(read_line(folder + "/gids/" + index));
      if (!gid.is_ok()) continue;
      GidEntry entry;
      entry.index = static_cast<int>(std::strtol(index.c_str(), nullptr, 10));
      entry.gid = *gid;
      const std::string type = read_line(folder + "/gid_attrs/types/" + index);
      entry.type = type.find("v2") != std::string::npos ? GidEntry::Type::roce_v2 : GidEntry::Type::roce_v1;
      table.push_back(std::move(entry));
    }
    std::sort(table.begin(), table.end(), [](const GidEntry& a, const GidEntry& b) { return a.index < b.index; });
    const Result<GidEntry> chosen = choose_gid(table);
    if (!chosen.is_ok()) return ", RoCE without a routable GID";
    return fmt::format(", RoCE v2 GID {} ({})", chosen->index, gid_to_string(chosen->gid));
  }

  GraphBuilder& graph_;
  int host_;
  std::string sys_;
  int gpus_ = 0;
};

}  // namespace

void add_devices(GraphBuilder& graph, int host, const std::string& sys) {
  Devices(graph, host, sys).add();
}

}  // namespace trireme
