#include <trireme/topology/nccl_xml.h>

#include <map>
#include <vector>

#include <fmt/core.h>
#include <pugixml.hpp>

#include "runtime/topology/graph_builder.h"

namespace trireme {
namespace {

constexpr int kDeepest = 64;
constexpr double kMegabitBytes = 1e6 / 8;

// NVLink rates per direction by the GPU's compute capability, as NCCL takes them
// (src/graph/topo.h): an XML file says only how many links there are.
double nvlink_bytes_per_second(int sm) {
  if (sm >= 100) return 40.1e9;
  if (sm >= 90) return 20.6e9;
  if (sm == 86) return 12e9;
  return sm >= 80 || sm == 70 || sm == 72 ? 20e9 : 18e9;
}

class NcclXml {
 public:
  Result<Topology> read(std::string_view text) {
    pugi::xml_document document;
    const pugi::xml_parse_result parsed = document.load_buffer(text.data(), text.size(), pugi::parse_default);
    if (!parsed) {
      return invalid_argument(fmt::format("NCCL topology: at byte {}: {}", parsed.offset, parsed.description()));
    }
    const pugi::xml_node system = document.child("system");
    if (!system) return invalid_argument("NCCL topology: the document has no <system> element");
    host_ = graph_.add(-1, VertexKind::host, "host");
    for (const pugi::xml_node cpu : system.children("cpu")) TRIREME_RETURN_IF_ERROR(read_cpu(cpu));
    if (graph_.topology().of_kind(VertexKind::numa_node).empty()) {
      return invalid_argument("NCCL topology: <system> holds no <cpu>");
    }
    TRIREME_RETURN_IF_ERROR(add_nvlinks());
    Topology topology = graph_.take();
    TRIREME_RETURN_IF_ERROR(topology.check());
    return topology;
  }

 private:
  struct PendingNvLink {
    int gpu;
    int sm;
    std::string target;
    int count;
    std::string target_class;
  };

  Status read_cpu(const pugi::xml_node& cpu) {
    const int number = cpu.attribute("numaid").as_int(-1);
    const int parent = graph_.add(host_, VertexKind::numa_node, fmt::format("NUMA node {}", number), number);
    graph_.at(parent).detail = cpu.attribute("affinity").as_string();
    const int bridge = graph_.add(parent, VertexKind::pci_bridge, fmt::format("PCI host bridge {}", number));
    return read_children(cpu, bridge, 0);
  }

  Status read_children(const pugi::xml_node& parent, int above, int depth) {
    if (depth > kDeepest) return invalid_argument("NCCL topology: elements nest deeper than any machine's bridges");
    for (const pugi::xml_node child : parent.children()) {
      const std::string_view name = child.name();
      if (name == "pci") TRIREME_RETURN_IF_ERROR(read_pci(child, above, depth));
      if (name == "nic") TRIREME_RETURN_IF_ERROR(read_nic(child, above));
    }
    return Status::ok();
  }

  Status read_pci(const pugi::xml_node& pci, int above, int depth) {
    const std::string address = pci.attribute("busid").as_string();
    if (address.empty()) return invalid_argument("NCCL topology: a <pci> has no busid");
    const pugi::xml_node gpu = pci.child("gpu");
    const bool is_device = gpu || pci.child("nic");
    int own = above;
    if (gpu) {
      own = graph_.add(above, VertexKind::gpu, address, gpu.attribute("dev").as_int(-1));
      graph_.at(own).detail = fmt::format("compute capability {}", gpu.attribute("sm").as_int(0));
      for (const pugi::xml_node link : gpu.children("nvlink")) {
        nvlinks_.push_back({own, gpu.attribute("sm").as_int(0), link.attribute("target").as_string(),
                            link.attribute("count").as_int(0), link.attribute("tclass").as_string()});
      }
    } else if (!is_device) {
      own = graph_.add(above, VertexKind::pci_bridge, address);
    }
    pci_rate_ = rate_of(pci);
    if (own != above && pci_rate_ > 0) {
      graph_.link(above, own, LinkKind::pci_express, pci_rate_, FigureSource::reported);
    }
    return read_children(pci, own, depth + 1);
  }

  // "16.0 GT/s PCIe" (older files: "16 GT/s") times the width.
  static double rate_of(const pugi::xml_node& pci) {
    const double gigatransfers = pci.attribute("link_speed").as_double(0);
    const int width = pci.attribute("link_width").as_int(0);
    if (!(gigatransfers > 0) || gigatransfers > 1000 || width <= 0 || width > 64) return 0;
    return gigatransfers * 1e9 * width * (gigatransfers < 6 ? 0.8 : 128.0 / 130.0) / 8;
  }

  Status read_nic(const pugi::xml_node& nic, int above) {
    for (const pugi::xml_node net : nic.children("net")) {
      const std::string name = net.attribute("name").as_string();
      if (name.empty()) return invalid_argument("NCCL topology: a <net> has no name");
      // NCCL names RDMA devices mlx5_0 and the like; its socket transport names interfaces.
      const bool rdma = net.attribute("guid").as_ullong(0) != 0 || name.find('_') != std::string::npos;
      const int id = graph_.add(above, rdma ? VertexKind::rdma_device : VertexKind::network_interface, name);
      graph_.at(id).detail = fmt::format("port {}", net.attribute("port").as_int(0));
      if (pci_rate_ > 0) graph_.link(above, id, LinkKind::pci_express, pci_rate_, FigureSource::reported);
      const double speed = net.attribute("speed").as_double(0) * kMegabitBytes;
      if (!(speed >= 0) || speed > 1e15)
        return invalid_argument("NCCL topology: net '" + name + "' has no sensible speed");
      if (speed == 0) continue;
      if (network_ < 0) network_ = graph_.add(-1, VertexKind::network_switch, "network");
      graph_.link(id, network_, LinkKind::network, speed, FigureSource::reported).latency_us =
          std::max(0.0, net.attribute("latency").as_double(0));
    }
    return Status::ok();
  }

  Status add_nvlinks() {
    for (const PendingNvLink& pending : nvlinks_) {
      if (pending.count < 1 || pending.count > 1024) {
        return invalid_argument(fmt::format("NCCL topology: an <nvlink> to '{}' has count {}; expected 1 or more",
                                            pending.target, pending.count));
      }
      const bool to_switch = pending.target_class.rfind("0x0680", 0) == 0;
      int far = -1;
      if (to_switch) {
        // NCCL takes all switches of a node for one fabric.
        if (switch_ < 0) switch_ = graph_.add(host_, VertexKind::nvlink_switch, "NVSwitch");
        far = switch_;
      } else {
        far = graph_.find(VertexKind::gpu, pending.target);
        if (far < pending.gpu) continue;  // Counted from the other end, or not a GPU of this file.
      }
      Link& link = graph_.link(pending.gpu, far, LinkKind::nvlink, pending.count * nvlink_bytes_per_second(pending.sm),
                               FigureSource::assumed);
      link.lanes = pending.count;
    }
    return Status::ok();
  }

  GraphBuilder graph_;
  int host_ = 0;
  int network_ = -1;
  int switch_ = -1;
  double pci_rate_ = 0;
  std::vector<PendingNvLink> nvlinks_;
};

}  // namespace

Result<Topology> topology_from_nccl_xml(std::string_view text) {
  return NcclXml().read(text);
}

}  // namespace trireme
