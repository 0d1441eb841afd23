// libibverbs is loaded at run time, so that one binary works with and without it.
#include "runtime/topology/discover_rdma.h"

#include <dlfcn.h>
#include <infiniband/verbs.h>

#include <memory>
#include <string>

namespace trireme {
namespace {

struct Verbs {
  void* library = nullptr;
  decltype(&ibv_get_device_list) get_device_list = nullptr;
  decltype(&ibv_free_device_list) free_device_list = nullptr;
  decltype(&ibv_get_device_name) get_device_name = nullptr;
  decltype(&ibv_open_device) open_device = nullptr;
  decltype(&ibv_close_device) close_device = nullptr;
  // ibv_query_port is a macro over this symbol in the headers.
  int (*query_port)(ibv_context*, std::uint8_t, _compat_ibv_port_attr*) = nullptr;

  bool load() {
    library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
    return library != nullptr && find("ibv_get_device_list", get_device_list) &&
           find("ibv_free_device_list", free_device_list) && find("ibv_get_device_name", get_device_name) &&
           find("ibv_open_device", open_device) && find("ibv_close_device", close_device) &&
           find("ibv_query_port", query_port);
  }
  template <typename Function>
  bool find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    return function != nullptr;
  }
};

// Lanes and rate per lane as the InfiniBand specification encodes them (PortInfo,
// LinkWidthActive and LinkSpeedActive), in bytes per second.
double port_bytes_per_second(const ibv_port_attr& port) {
  const int lanes = port.active_width == 1    ? 1
                    : port.active_width == 2  ? 4
                    : port.active_width == 4  ? 8
                    : port.active_width == 8  ? 12
                    : port.active_width == 16 ? 2
                                              : 0;
  double gigabits = 0;
  switch (port.active_speed) {
    case 1:
      gigabits = 2.5 * 0.8;
      break;  // SDR, 8b/10b
    case 2:
      gigabits = 5 * 0.8;
      break;  // DDR
    case 4:
      gigabits = 10 * 0.8;
      break;  // QDR
    case 8:
      gigabits = 10;
      break;  // FDR10
    case 16:
      gigabits = 14;
      break;  // FDR
    case 32:
      gigabits = 25;
      break;  // EDR
    case 64:
      gigabits = 50;
      break;  // HDR
    case 128:
      gigabits = 100;
      break;  // NDR
    default:
      break;
  }
  return lanes * gigabits * 1e9 / 8;
}

void describe_ports(const Verbs& verbs, ibv_device* device, Topology& topology, Vertex& vertex) {
  ibv_context* context = verbs.open_device(device);
  if (context == nullptr) {
    vertex.detail = "cannot be opened: check /dev/infiniband permissions";
    return;
  }
  ibv_port_attr port{};
  if (verbs.query_port(context, 1, reinterpret_cast<_compat_ibv_port_attr*>(&port)) == 0) {
    vertex.detail = port.state == IBV_PORT_ACTIVE ? "port 1 active" : "port 1 down";
    const double speed = port_bytes_per_second(port);
    if (speed > 0) {
      topology.links.push_back(Link{vertex.parent, vertex.id, LinkKind::network, speed, 0, FigureSource::reported});
    }
  }
  verbs.close_device(context);
}

}  // namespace

void append_rdma_devices(Topology& topology, int host) {
  Verbs verbs;
  if (!verbs.load()) return;
  int count = 0;
  ibv_device** list = verbs.get_device_list(&count);
  if (list == nullptr) return;
  for (int index = 0; index < count; ++index) {
    Vertex vertex;
    vertex.id = static_cast<int>(topology.vertices.size());
    vertex.parent = host;
    vertex.kind = VertexKind::rdma_device;
    vertex.name = verbs.get_device_name(list[index]);
    vertex.os_index = index;
    describe_ports(verbs, list[index], topology, vertex);
    topology.vertices.push_back(std::move(vertex));
  }
  verbs.free_device_list(list);
  // The library stays loaded: its providers do not survive being unloaded.
}

}  // namespace trireme
