// NCCL's topology file (what NCCL_TOPO_DUMP_FILE writes and NCCL_TOPO_FILE reads) as a
// Topology: cpu becomes a NUMA node, pci a bridge or a device, nvlink and net links.
// Pure function.
#pragma once

#include <string_view>

#include <trireme/base/status.h>
#include <trireme/topology/topology.h>

namespace trireme {

// Errors: invalid_argument naming the position or the element and attribute; nothing in
// the text can make it do more than refuse (no external entities, bounded depth).
Result<Topology> topology_from_nccl_xml(std::string_view text);

}  // namespace trireme
