// Packages, NUMA nodes and cores: by hwloc on this machine, by sysfs on a recorded one.
#include <hwloc.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "runtime/platform/api/files.h"
#include "runtime/topology/discover_parts.h"

namespace trireme {
namespace {

struct HwlocDeleter {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using HwlocTopology = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, HwlocDeleter>;

// hwloc's plugins that we do without: devices are read from sysfs and NVML. Loading
// vendors' libraries costs time, and several of them leak.
constexpr const char* kUnusedComponents[] = {"pci", "opencl", "gl", "cuda", "nvml", "rsmi", "levelzero"};

int os_index(hwloc_obj_t object) {
  return object->os_index == HWLOC_UNKNOWN_INDEX ? -1 : static_cast<int>(object->os_index);
}

std::string cpu_list(hwloc_obj_t object) {
  char text[256];
  hwloc_bitmap_list_snprintf(text, sizeof text, object->cpuset);
  return "cpus " + std::string(text);
}

// The vertex of the closest ancestor that has one.
int vertex_above(hwloc_obj_t object, const std::map<hwloc_obj_t, int>& vertices, int host) {
  for (hwloc_obj_t above = object->parent; above != nullptr; above = above->parent) {
    const auto found = vertices.find(above);
    if (found != vertices.end()) return found->second;
  }
  return host;
}

void add_objects(GraphBuilder& graph, hwloc_topology_t machine, int host) {
  std::map<hwloc_obj_t, int> vertices;
  for (hwloc_obj_t object = nullptr; (object = hwloc_get_next_obj_by_type(machine, HWLOC_OBJ_PACKAGE, object));) {
    const int id =
        graph.add(host, VertexKind::package, "package " + std::to_string(os_index(object)), os_index(object));
    if (const char* model = hwloc_obj_get_info_by_name(object, "CPUModel")) graph.at(id).detail = model;
    vertices[object] = id;
  }
  for (hwloc_obj_t object = nullptr; (object = hwloc_get_next_obj_by_type(machine, HWLOC_OBJ_NUMANODE, object));) {
    const int parent = vertex_above(object, vertices, host);
    const int id =
        graph.add(parent, VertexKind::numa_node, "NUMA node " + std::to_string(os_index(object)), os_index(object));
    graph.at(id).memory_bytes = object->attr->numanode.local_memory;
    graph.at(id).detail = cpu_list(object);
    graph.link(parent, id, LinkKind::memory, 0, FigureSource::unknown);
  }
  for (hwloc_obj_t object = nullptr; (object = hwloc_get_next_obj_by_type(machine, HWLOC_OBJ_CORE, object));) {
    const int parent = graph.numa_node(hwloc_bitmap_first(object->nodeset), vertex_above(object, vertices, host));
    graph.add(parent, VertexKind::core, "core " + std::to_string(os_index(object)), os_index(object));
  }
}

// "0-3,8" or so; damaged text gives what could be read.
std::set<int> parse_list(const std::string& text) {
  std::set<int> values;
  const char* at = text.c_str();
  while (*at != '\0') {
    char* end = nullptr;
    const long first = std::strtol(at, &end, 10);
    if (end == at) break;
    long last = first;
    if (*end == '-') last = std::strtol(end + 1, &end, 10);
    for (long value = first; value <= last && value - first < 65536; ++value) values.insert(static_cast<int>(value));
    at = *end == ',' ? end + 1 : end;
    if (*end != ',') break;
  }
  return values;
}

std::uint64_t node_memory_bytes(const std::string& folder) {
  const Result<std::string> text = read_file(folder + "/meminfo");
  if (!text.is_ok()) return 0;
  const std::size_t at = text->find("MemTotal:");
  return at == std::string::npos ? 0 : std::strtoull(text->c_str() + at + 9, nullptr, 10) * 1024;
}

class SysfsProcessors {
 public:
  SysfsProcessors(GraphBuilder& graph, int host, std::string sys) : graph_(graph), host_(host), sys_(std::move(sys)) {}

  Status add() {
    for (int node : parse_list(read_line(sys_ + "/devices/system/node/online"))) add_node(node);
    for (int cpu : parse_list(read_line(sys_ + "/devices/system/cpu/online"))) add_core(cpu, host_);
    if (cores_.empty()) {
      return unavailable("no processor found: neither hwloc nor " + sys_ +
                         "/devices/system/cpu/online can be read; is sysfs mounted here?");
    }
    return Status::ok();
  }

 private:
  int package_of(int cpu) {
    const long number = read_number(cpu_folder(cpu) + "/topology/physical_package_id", -1);
    if (number < 0) return host_;
    const std::string name = "package " + std::to_string(number);
    const int known = graph_.find(VertexKind::package, name);
    return known >= 0 ? known : graph_.add(host_, VertexKind::package, name, static_cast<int>(number));
  }

  void add_node(int node) {
    const std::string folder = sys_ + "/devices/system/node/node" + std::to_string(node);
    const std::string list = read_line(folder + "/cpulist");
    const std::set<int> cpus = parse_list(list);
    const int parent = cpus.empty() ? host_ : package_of(*cpus.begin());
    const int id = graph_.add(parent, VertexKind::numa_node, "NUMA node " + std::to_string(node), node);
    graph_.at(id).memory_bytes = node_memory_bytes(folder);
    graph_.at(id).detail = "cpus " + list;
    graph_.link(parent, id, LinkKind::memory, 0, FigureSource::unknown);
    for (int cpu : cpus) add_core(cpu, id);
  }

  // Hardware threads of one core are one vertex.
  void add_core(int cpu, int parent) {
    const long core = read_number(cpu_folder(cpu) + "/topology/core_id", cpu);
    const long package = read_number(cpu_folder(cpu) + "/topology/physical_package_id", 0);
    if (!cores_.insert({package, core}).second) return;
    graph_.add(parent, VertexKind::core, "core " + std::to_string(core), static_cast<int>(core));
  }

  std::string cpu_folder(int cpu) const { return sys_ + "/devices/system/cpu/cpu" + std::to_string(cpu); }

  GraphBuilder& graph_;
  int host_;
  std::string sys_;
  std::set<std::pair<long, long>> cores_;
};

}  // namespace

Status add_processors_from_hwloc(GraphBuilder& graph, int host) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return unavailable("hwloc_topology_init failed: out of memory");
  const HwlocTopology machine(raw);
  for (const char* component : kUnusedComponents) {
    hwloc_topology_set_components(machine.get(), HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
  }
  if (hwloc_topology_load(machine.get()) != 0) {
    return unavailable("hwloc could not read this machine from /sys and /proc; are they mounted here?");
  }
  add_objects(graph, machine.get(), host);
  return Status::ok();
}

Status add_processors_from_sysfs(GraphBuilder& graph, int host, const std::string& sys) {
  return SysfsProcessors(graph, host, sys).add();
}

}  // namespace trireme
