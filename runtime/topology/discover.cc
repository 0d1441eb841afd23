// Discovery of this host, part by part (discover_parts.h).
#include <trireme/topology/discover.h>

#include <cstdlib>

#include "runtime/platform/api/files.h"
#include "runtime/platform/api/process.h"
#include "runtime/topology/discover_parts.h"

namespace trireme {

std::string read_line(const std::string& path) {
  const Result<std::string> text = read_file(path);
  if (!text.is_ok()) return "";
  return text->substr(0, text->find('\n'));
}

long read_number(const std::string& path, long fallback) {
  const std::string line = read_line(path);
  char* end = nullptr;
  const long value = std::strtol(line.c_str(), &end, 0);
  return end == line.c_str() ? fallback : value;
}

Result<Topology> discover_host(const DiscoveryOptions& options) {
  GraphBuilder graph;
  const std::string sys = options.root + "/sys";
  const std::string recorded = options.root.empty() ? "" : read_line(sys + "/kernel/hostname");
  const int host = graph.add(-1, VertexKind::host, recorded.empty() ? host_name() : recorded);
  const bool with_hwloc = options.root.empty() && add_processors_from_hwloc(graph, host).is_ok();
  if (!with_hwloc) TRIREME_RETURN_IF_ERROR(add_processors_from_sysfs(graph, host, sys));
  add_devices(graph, host, sys);
  if (!options.nvml_library.empty()) add_nvlinks(graph, host, read_nvml(options.nvml_library));
  Topology topology = graph.take();
  TRIREME_RETURN_IF_ERROR(topology.check());
  return topology;
}

}  // namespace trireme
