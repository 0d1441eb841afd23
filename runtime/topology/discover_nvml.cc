// NVML, loaded at run time: names, memory, PCIe links and NVLinks of GPUs. The prototypes are our own
// and few; NVML keeps a versioned symbol's layout for ever.
#include <dlfcn.h>

#include <algorithm>
#include <iterator>
#include <map>

#include <fmt/core.h>

#include "runtime/topology/discover_parts.h"

namespace trireme {
namespace {

using Device = struct nvmlDevice_st*;

struct PciInfo {  // nvmlPciInfo_t of nvmlDeviceGetPciInfo_v3
  char bus_id_legacy[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pci_device_id;
  unsigned pci_subsystem_id;
  char bus_id[32];
};
struct Memory {  // nvmlMemory_t
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

constexpr int kSuccess = 0;
constexpr unsigned kMostLinks = 18;  // Of today's GPUs; asking for more is an error NVML names.
constexpr unsigned kRemoteSwitch = 2;
constexpr unsigned kMostGpus = 1024;

struct Library {
  void* handle = nullptr;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*by_index)(unsigned, Device*) = nullptr;
  int (*pci_info)(Device, PciInfo*) = nullptr;
  int (*name)(Device, char*, unsigned) = nullptr;
  int (*memory)(Device, Memory*) = nullptr;
  // Of newer drivers; each may be missing.
  int (*link_state)(Device, unsigned, int*) = nullptr;
  int (*link_version)(Device, unsigned, unsigned*) = nullptr;
  int (*link_remote)(Device, unsigned, PciInfo*) = nullptr;
  int (*link_remote_type)(Device, unsigned, unsigned*) = nullptr;
  int (*pcie_generation)(Device, unsigned*) = nullptr;
  int (*pcie_width)(Device, unsigned*) = nullptr;

  template <typename Function>
  bool find(const char* symbol, Function& function) {
    function = reinterpret_cast<Function>(dlsym(handle, symbol));
    return function != nullptr;
  }
  bool load(const std::string& path) {
    handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return false;
    find("nvmlDeviceGetNvLinkState", link_state);
    find("nvmlDeviceGetNvLinkVersion", link_version);
    find("nvmlDeviceGetNvLinkRemotePciInfo_v2", link_remote);
    find("nvmlDeviceGetNvLinkRemoteDeviceType", link_remote_type);
    find("nvmlDeviceGetMaxPcieLinkGeneration", pcie_generation);
    find("nvmlDeviceGetMaxPcieLinkWidth", pcie_width);
    return find("nvmlInit_v2", init) && find("nvmlShutdown", shutdown) && find("nvmlDeviceGetCount_v2", count) &&
           find("nvmlDeviceGetHandleByIndex_v2", by_index) && find("nvmlDeviceGetPciInfo_v3", pci_info) &&
           find("nvmlDeviceGetName", name) && find("nvmlDeviceGetMemoryInfo", memory);
  }
};

std::string address_of(const PciInfo& info) {
  return fmt::format("{:04x}:{:02x}:{:02x}.0", info.domain, info.bus, info.device);
}

std::vector<NvmlGpu::NvLink> read_links(const Library& nvml, Device device) {
  std::vector<NvmlGpu::NvLink> links;
  if (nvml.link_state == nullptr || nvml.link_remote == nullptr) return links;
  for (unsigned index = 0; index < kMostLinks; ++index) {
    int active = 0;
    if (nvml.link_state(device, index, &active) != kSuccess || active == 0) continue;
    NvmlGpu::NvLink link;
    unsigned version = 0;
    if (nvml.link_version != nullptr && nvml.link_version(device, index, &version) == kSuccess) {
      link.version = static_cast<int>(version);
    }
    PciInfo remote{};
    if (nvml.link_remote(device, index, &remote) == kSuccess) link.remote = address_of(remote);
    unsigned type = 0;
    if (nvml.link_remote_type != nullptr && nvml.link_remote_type(device, index, &type) == kSuccess) {
      link.to_switch = type == kRemoteSwitch;
    }
    links.push_back(std::move(link));
  }
  return links;
}

// Each direction, less the line code: 8b/10b, from 8 GT/s on 128b/130b, from 64 GT/s on flits
// of 242 bytes in 256. 0 for generations to come.
double pcie_bytes_per_second(int generation, int lanes) {
  constexpr double kPerLane[] = {
      0, 0.25e9, 0.5e9, 8e9 / 8 * 128 / 130, 16e9 / 8 * 128 / 130, 32e9 / 8 * 128 / 130, 64e9 / 8 * 242 / 256};
  if (generation <= 0 || generation >= static_cast<int>(std::size(kPerLane)) || lanes <= 0 || lanes > 32) return 0;
  return kPerLane[generation] * lanes;
}

// sysfs shows what a link does at present, and links of idle GPUs slow down to save power,
// at both of their ends: the GPU's, and that of the port above, which stands at its own edge.
void set_pcie(GraphBuilder& graph, int gpu, double bytes_per_second) {
  if (bytes_per_second <= 0) return;
  for (int child = gpu; child >= 0;) {
    const int parent = graph.at(child).parent;
    if (parent < 0) return;
    Link* link = graph.find_link(parent, child, LinkKind::pci_express);
    if (link == nullptr && child == gpu) {
      link = &graph.link(parent, child, LinkKind::pci_express, bytes_per_second, FigureSource::reported);
    }
    if (link != nullptr) link->bytes_per_second = std::max(link->bytes_per_second, bytes_per_second);
    child = child == gpu && graph.at(parent).kind == VertexKind::pci_bridge ? parent : -1;
  }
}

// Each direction of one link, by generation (NVIDIA's architecture papers).
double nvlink_bytes_per_second(int version) {
  if (version <= 0) return 0;
  if (version == 1) return 20e9;
  return version >= 5 ? 50e9 : 25e9;
}

// The links between two vertices become one with their sum.
void join(GraphBuilder& graph, int a, int b, const std::vector<NvmlGpu::NvLink>& links) {
  double sum = 0;
  int version = 0;
  for (const NvmlGpu::NvLink& link : links) {
    sum += nvlink_bytes_per_second(link.version);
    version = std::max(version, link.version);
  }
  Link& joined = graph.link(a, b, LinkKind::nvlink, sum, FigureSource::reported);
  joined.lanes = static_cast<int>(links.size());
  if (version > 0) joined.detail = fmt::format("NVLink {}", version);
}

}  // namespace

std::vector<NvmlGpu> read_nvml(const std::string& library) {
  std::vector<NvmlGpu> gpus;
  Library nvml;
  // The library stays loaded: drivers' libraries do not survive being unloaded.
  if (!nvml.load(library) || nvml.init() != kSuccess) return gpus;
  unsigned count = 0;
  if (nvml.count(&count) != kSuccess) count = 0;
  for (unsigned index = 0; index < std::min(count, kMostGpus); ++index) {
    Device device = nullptr;
    PciInfo pci{};
    if (nvml.by_index(index, &device) != kSuccess || nvml.pci_info(device, &pci) != kSuccess) continue;
    NvmlGpu gpu;
    gpu.address = address_of(pci);
    char name[96] = {};
    if (nvml.name(device, name, sizeof name - 1) == kSuccess) gpu.name = name;
    Memory memory{};
    if (nvml.memory(device, &memory) == kSuccess) gpu.memory_bytes = memory.total;
    gpu.links = read_links(nvml, device);
    unsigned generation = 0;
    unsigned lanes = 0;
    if (nvml.pcie_generation != nullptr && nvml.pcie_width != nullptr &&
        nvml.pcie_generation(device, &generation) == kSuccess && nvml.pcie_width(device, &lanes) == kSuccess) {
      gpu.pcie_generation = static_cast<int>(generation);
      gpu.pcie_lanes = static_cast<int>(lanes);
    }
    gpus.push_back(std::move(gpu));
  }
  nvml.shutdown();
  return gpus;
}

void add_nvlinks(GraphBuilder& graph, int host, const std::vector<NvmlGpu>& gpus) {
  std::vector<int> ids;
  for (std::size_t index = 0; index < gpus.size(); ++index) {
    int id = graph.find(VertexKind::gpu, gpus[index].address);
    if (id < 0) id = graph.add(host, VertexKind::gpu, gpus[index].address);
    graph.at(id).os_index = static_cast<int>(index);
    graph.at(id).detail = gpus[index].name;
    graph.at(id).memory_bytes = gpus[index].memory_bytes;
    set_pcie(graph, id, pcie_bytes_per_second(gpus[index].pcie_generation, gpus[index].pcie_lanes));
    ids.push_back(id);
  }
  std::map<std::pair<int, int>, std::vector<NvmlGpu::NvLink>> joined;
  for (std::size_t index = 0; index < gpus.size(); ++index) {
    for (const NvmlGpu::NvLink& link : gpus[index].links) {
      int far = -1;
      if (link.to_switch) {
        // Virtual machines hide the switches' addresses; then all links meet in one.
        const std::string name = "NVSwitch " + (link.remote.empty() ? std::string("fabric") : link.remote);
        far = graph.find(VertexKind::nvlink_switch, name);
        if (far < 0) far = graph.add(host, VertexKind::nvlink_switch, name);
      } else {
        far = graph.find(VertexKind::gpu, link.remote);
        if (far < ids[index]) continue;  // Unknown, or counted from the other end.
      }
      joined[{ids[index], far}].push_back(link);
    }
  }
  for (const auto& [ends, links] : joined) join(graph, ends.first, ends.second, links);
}

}  // namespace trireme
