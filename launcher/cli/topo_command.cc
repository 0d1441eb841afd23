// trireme topo: this host (or a described one) as a matrix, a tree or JSON, and why data
// takes the way it takes.
#include <fmt/core.h>
#include <trireme/topology/discover.h>
#include <trireme/topology/format.h>
#include <trireme/topology/nccl_xml.h>
#include <trireme/topology/route.h>
#include <CLI/CLI.hpp>

#include "launcher/cli/commands.h"
#include "launcher/cli/external_command.h"
#include "runtime/platform/api/console.h"
#include "runtime/platform/api/files.h"

namespace trireme {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  trireme topo                       this host's devices and how they are joined\n"
    "  trireme topo --tree                packages, NUMA nodes, cores and devices as a tree\n"
    "  trireme topo --json > node.json    for other commands and programs (docs/formats/topology.md)\n"
    "  trireme topo --from node.json      the same views of a described machine, or of what p2p_matrix measured\n"
    "  trireme topo --from nccl.xml       a topology file of NCCL (NCCL_TOPO_DUMP_FILE)\n"
    "  trireme topo --explain GPU0 mlx5_0 every path between two of them, and why it is taken or refused\n"
    "  trireme topo --explain-collective all_reduce --size 1M --ranks 8   which algorithm is chosen, and why\n";

struct TopoOptions {
  std::string from;
  bool json = false;
  bool tree = false;
  std::vector<std::string> explain;
  std::string collective;
  std::string size = "1M";
  int ranks = 0;
};

Result<Topology> read_topology(const TopoOptions& options) {
  if (options.from.empty()) return discover_host();
  TRIREME_ASSIGN_OR_RETURN(const std::string text, read_file(options.from));
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool is_xml = first != std::string::npos && text[first] == '<';
  Result<Topology> topology = is_xml ? topology_from_nccl_xml(text) : topology_from_json(text);
  if (!topology.is_ok()) return topology.status().with_context(options.from);
  return topology;
}

int fail(const Status& status) {
  print_error(fmt::format("trireme topo: {}\n", status.message()));
  return exit_code(status.code());
}

int explain(const Topology& topology, const std::vector<std::string>& names) {
  const Result<int> a = find_vertex(topology, names[0]);
  if (!a.is_ok()) return fail(a.status());
  const Result<int> b = find_vertex(topology, names[1]);
  if (!b.is_ok()) return fail(b.status());
  print_out(explain_paths(topology, *a, *b));
  return 0;
}

// The choice of algorithms belongs to the collectives, which the launcher does not link.
int explain_collective(const TopoOptions& options) {
  std::vector<std::string> arguments = {"--explain", options.collective, "--size", options.size};
  if (options.ranks > 0) arguments.insert(arguments.end(), {"--ranks", std::to_string(options.ranks)});
  if (!options.from.empty()) arguments.insert(arguments.end(), {"--topology", options.from});
  return run_external_command("tune", arguments);
}

int show(const Topology& topology, const TopoOptions& options) {
  if (options.json) {
    print_out(topology_to_json(topology));
  } else if (options.tree) {
    print_out(format_tree(topology));
  } else {
    print_out(fmt::format("{}\n{}", format_matrix(topology), format_tree(topology)));
  }
  return 0;
}

}  // namespace

int topo_command(const std::vector<std::string>& arguments) {
  TopoOptions options;
  CLI::App app("Shows what a host is made of and how its parts are joined.", "trireme topo");
  app.footer(kExamples);
  app.add_flag("--json", options.json, "print the topology file");
  app.add_flag("--tree", options.tree, "print the tree of packages, NUMA nodes, cores and devices");
  app.add_option("--from", options.from,
                 "read this topology file (ours, or NCCL's XML) instead of looking at this host");
  app.add_option("--explain", options.explain, "explain every path between two of what the matrix shows")->expected(2);
  app.add_option("--explain-collective", options.collective, "explain which algorithm this collective takes, and why");
  app.add_option("--size", options.size, "with --explain-collective: bytes, as 1M")->capture_default_str();
  app.add_option("--ranks", options.ranks, "with --explain-collective: how many; default: what was measured");
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    print_out(app.help());
    return 0;
  } catch (const CLI::ParseError& error) {
    return usage_error(fmt::format("topo: {}; see trireme topo --help", error.what()));
  }
  if (!options.collective.empty()) return explain_collective(options);
  const Result<Topology> topology = read_topology(options);
  if (!topology.is_ok()) return fail(topology.status());
  return options.explain.empty() ? show(*topology, options) : explain(*topology, options.explain);
}

}  // namespace trireme
