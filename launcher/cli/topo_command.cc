// trireme topo: this host (or a described one) as a tree, a matrix or JSON.
#include <fmt/core.h>
#include <trireme/topology/topology.h>
#include <CLI/CLI.hpp>

#include "launcher/cli/commands.h"
#include "runtime/platform/api/files.h"

namespace trireme {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  trireme topo                     this host's devices and how they are joined\n"
    "  trireme topo --tree              packages, NUMA nodes, cores and devices as a tree\n"
    "  trireme topo --json > node.json  for other commands and programs (docs/formats/topology.md)\n"
    "  trireme topo --from node.json    the same views of a described machine\n";

struct TopoOptions {
  std::string from;
  bool json = false;
  bool tree = false;
};

Result<Topology> read_topology(const TopoOptions& options) {
  if (options.from.empty()) return discover_host();
  TRIREME_ASSIGN_OR_RETURN(const std::string text, read_file(options.from));
  Result<Topology> topology = topology_from_json(text);
  if (!topology.is_ok()) return topology.status().with_context(options.from);
  return topology;
}

}  // namespace

int topo_command(const std::vector<std::string>& arguments) {
  TopoOptions options;
  CLI::App app("Shows what a host is made of and how its parts are joined.", "trireme topo");
  app.footer(kExamples);
  app.add_flag("--json", options.json, "print the topology file");
  app.add_flag("--tree", options.tree, "print the tree of packages, NUMA nodes, cores and devices");
  app.add_option("--from", options.from, "read this topology file instead of looking at this host");
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return 0;
  } catch (const CLI::ParseError& error) {
    return usage_error(fmt::format("topo: {}; see trireme topo --help", error.what()));
  }
  const Result<Topology> topology = read_topology(options);
  if (!topology.is_ok()) {
    fmt::print(stderr, "trireme topo: {}\n", topology.status().message());
    return exit_code(topology.status().code());
  }
  if (options.json) {
    fmt::print("{}", topology_to_json(*topology));
  } else if (options.tree) {
    fmt::print("{}", format_tree(*topology));
  } else {
    fmt::print("{}\n{}", format_matrix(*topology), format_tree(*topology));
  }
  return 0;
}

}  // namespace trireme
