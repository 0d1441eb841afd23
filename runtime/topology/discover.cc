// Discovery of this host: hwloc says what the processor and the PCI bus look like, sysfs
// what network interfaces there are, libibverbs which RDMA devices (discover_rdma.cc).
#include <hwloc.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include <trireme/topology/topology.h>

#include "runtime/platform/api/files.h"
#include "runtime/platform/api/process.h"
#include "runtime/topology/discover_rdma.h"

namespace trireme {
namespace {

struct HwlocDeleter {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using HwlocTopology = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, HwlocDeleter>;

constexpr int kPciClassDisplay = 0x03;

// hwloc's plugins that we do without: its Linux component reads the PCI bus from sysfs as
// well as "pci" does, and GPUs are taken from there and from CUDA itself. Loading vendors'
// libraries costs time, and several of them leak.
constexpr const char* kUnusedComponents[] = {"pci", "opencl", "gl", "cuda", "nvml", "rsmi", "levelzero"};

class Discovery {
 public:
  int add(int parent, VertexKind kind, std::string name, int os_index = -1) {
    Vertex vertex;
    vertex.id = static_cast<int>(topology_.vertices.size());
    vertex.parent = parent;
    vertex.kind = kind;
    vertex.name = std::move(name);
    vertex.os_index = os_index;
    topology_.vertices.push_back(vertex);
    return vertex.id;
  }
  void add_link(int a, int b, LinkKind kind, double bytes_per_second, FigureSource source) {
    topology_.links.push_back(Link{a, b, kind, bytes_per_second, 0, source});
  }
  Vertex& at(int id) { return topology_.vertices[static_cast<std::size_t>(id)]; }
  Topology take() { return std::move(topology_); }
  // -1 when hwloc has not shown it.
  int find_interface(const std::string& name) const {
    for (const Vertex& vertex : topology_.vertices) {
      if (vertex.kind == VertexKind::network_interface && vertex.name == name) return vertex.id;
    }
    return -1;
  }

  // Walks hwloc's tree; `parent` is our vertex above `object`.
  void walk(hwloc_obj_t object, int parent) {
    const int own = convert(object, parent);
    for (hwloc_obj_t child = object->memory_first_child; child; child = child->next_sibling) walk(child, own);
    for (hwloc_obj_t child = object->first_child; child; child = child->next_sibling) walk(child, own);
    for (hwloc_obj_t child = object->io_first_child; child; child = child->next_sibling) walk(child, own);
  }

 private:
  // Our vertex for `object`, or `parent` when it is of a kind we do not keep.
  int convert(hwloc_obj_t object, int parent) {
    const int index = object->os_index == HWLOC_UNKNOWN_INDEX ? -1 : static_cast<int>(object->os_index);
    switch (object->type) {
      case HWLOC_OBJ_PACKAGE:
        return convert_package(object, parent, index);
      case HWLOC_OBJ_CORE:
        return add(parent, VertexKind::core, "core " + std::to_string(index), index);
      case HWLOC_OBJ_NUMANODE:
        return convert_numa_node(object, parent, index);
      case HWLOC_OBJ_BRIDGE:
        return convert_bridge(object, parent);
      case HWLOC_OBJ_PCI_DEVICE:
        return convert_pci_device(object, parent);
      case HWLOC_OBJ_OS_DEVICE:
        if (object->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK) {
          return add(parent, VertexKind::network_interface, object->name ? object->name : "network");
        }
        return parent;
      default:
        return parent;
    }
  }

  int convert_package(hwloc_obj_t object, int parent, int index) {
    const int id = add(parent, VertexKind::package, "package " + std::to_string(index), index);
    if (const char* model = hwloc_obj_get_info_by_name(object, "CPUModel")) at(id).detail = model;
    return id;
  }

  int convert_numa_node(hwloc_obj_t object, int parent, int index) {
    const int id = add(parent, VertexKind::numa_node, "NUMA node " + std::to_string(index), index);
    at(id).memory_bytes = object->attr->numanode.local_memory;
    add_link(parent, id, LinkKind::memory, 0, FigureSource::unknown);
    return id;
  }

  int convert_bridge(hwloc_obj_t object, int parent) {
    const bool host_bridge = object->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST;
    return add(parent, VertexKind::pci_bridge, host_bridge ? "PCI host bridge" : "PCI bridge");
  }

  int convert_pci_device(hwloc_obj_t object, int parent) {
    const auto& pci = object->attr->pcidev;
    if ((pci.class_id >> 8) != kPciClassDisplay) return parent;
    char address[32];
    std::snprintf(address, sizeof address, "%04x:%02x:%02x.%x", pci.domain, pci.bus, pci.dev, pci.func);
    const int id = add(parent, VertexKind::gpu, address, gpus_++);
    if (object->name) at(id).detail = object->name;
    const bool known = std::isfinite(pci.linkspeed) && pci.linkspeed > 0;
    add_link(parent, id, LinkKind::pci_express, known ? static_cast<double>(pci.linkspeed) * 1e9 : 0,
             known ? FigureSource::reported : FigureSource::unknown);
    return id;
  }

  Topology topology_;
  int gpus_ = 0;
};

// Interfaces hwloc does not see (virtual ones) hang below the host; speeds for all.
void add_network_interfaces(Discovery& discovery, int host) {
  Result<std::vector<std::string>> names = list_directory("/sys/class/net");
  if (!names.is_ok()) return;  // No sysfs (a container): no interface is known, which the matrix shows.
  for (const std::string& name : *names) {
    int id = discovery.find_interface(name);
    if (id < 0) id = discovery.add(host, VertexKind::network_interface, name);
    const Result<std::string> state = read_file("/sys/class/net/" + name + "/operstate");
    if (state.is_ok()) discovery.at(id).detail = state->substr(0, state->find('\n'));
    const Result<std::string> speed = read_file("/sys/class/net/" + name + "/speed");
    const double megabits = speed.is_ok() ? std::strtod(speed->c_str(), nullptr) : 0;
    if (megabits > 0) {
      discovery.add_link(discovery.at(id).parent, id, LinkKind::network, megabits * 1e6 / 8, FigureSource::reported);
    }
  }
}

}  // namespace

Result<Topology> discover_host() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return unavailable("hwloc_topology_init failed: out of memory");
  const HwlocTopology machine(raw);
  for (const char* component : kUnusedComponents) {
    hwloc_topology_set_components(machine.get(), HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
  }
  hwloc_topology_set_io_types_filter(machine.get(), HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  if (hwloc_topology_load(machine.get()) != 0) {
    return unavailable("hwloc could not read this machine from /sys and /proc; are they mounted here?");
  }
  Discovery discovery;
  const int host = discovery.add(-1, VertexKind::host, host_name());
  discovery.walk(hwloc_get_root_obj(machine.get()), host);
  add_network_interfaces(discovery, host);
  Topology topology = discovery.take();
  append_rdma_devices(topology, host);
  TRIREME_RETURN_IF_ERROR(topology.check());
  return topology;
}

}  // namespace trireme
