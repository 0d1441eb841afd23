// trireme tune: measures every algorithm on this machine and keeps the times for the
// choice of algorithms; with --explain, says what would be chosen and why.
#include <algorithm>
#include <cstdio>
#include <thread>

#include <fmt/core.h>
#include <trireme/base/units.h>
#include <trireme/platform/environment.h>
#include <CLI/CLI.hpp>

#include "collectives/plan/api/network_model.h"
#include "collectives/select/selector.h"
#include "collectives/tune/measure.h"
#include "runtime/platform/api/console.h"
#include "runtime/platform/api/files.h"
#include "runtime/platform/api/system.h"
#include "runtime/rendezvous/api/local_worlds.h"

namespace trireme::tune {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  trireme tune                              measures with as many ranks as there are processors\n"
    "  trireme run -n 8 -- trireme tune          the same with 8 processes\n"
    "  trireme tune --explain all_reduce --size 1M --ranks 8    what would be chosen, and why\n";

struct Options {
  int ranks = 0;
  std::string output;
  std::string explain;
  std::string size = "1M";
  std::string topology;
  MeasureOptions measure;
};

int fail(const Status& status) {
  fmt::print(stderr, "trireme tune: {}\n", status.message());
  return exit_code(status.code());
}

Status write_table(const TuningTable& table, const std::string& path, bool is_default) {
  const std::size_t slash = path.rfind('/');
  if (is_default && slash != std::string::npos) TRIREME_RETURN_IF_ERROR(make_directories(path.substr(0, slash)));
  return write_file_atomically(path, tuning_to_json(table));
}

int measure_rank(const Options& options, const std::shared_ptr<World>& world) {
  const auto say = [](const std::string& line) {
    fmt::print("{}\n", line);
    std::fflush(stdout);
  };
  const Result<std::string> path = options.output.empty() ? tuning_path() : Result<std::string>(options.output);
  if (!path.is_ok()) return fail(path.status());
  const Result<TuningTable> table = measure(world, options.measure, say);
  if (!table.is_ok()) return fail(table.status());
  if (world->rank() != 0) return 0;
  const Status written = write_table(*table, *path, options.output.empty());
  if (!written.is_ok()) return fail(written);
  fmt::print("{} times over {} ranks: {:.2f} us a message, {:.2f} GB/s a path, {:.2f} GB/s of local work\nkept in {}\n",
             table->times.size(), table->ranks, table->network.alpha_s * 1e6, 1e-9 / table->network.beta_s_per_byte,
             1e-9 / table->network.gamma_s_per_byte, *path);
  return 0;
}

constexpr int kMostThreads = 256;

int measure_threads(const Options& options) {
  const int ranks = options.ranks > 0 ? options.ranks : std::clamp(usable_cpu_count(), 2, 8);
  if (ranks > kMostThreads) {
    return fail(
        invalid_argument(fmt::format("--ranks {}: at most {} ranks are measured as threads; start more as "
                                     "processes: trireme run -n {} -- trireme tune",
                                     ranks, kMostThreads, ranks)));
  }
  auto worlds = make_local_worlds(ranks);
  if (!worlds.is_ok()) return fail(worlds.status());
  std::vector<int> codes(worlds.value().size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < worlds.value().size(); ++rank) {
    threads.emplace_back([&, rank] {
      codes[rank] = measure_rank(options, worlds.value()[rank]);
      worlds.value()[rank].reset();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return *std::max_element(codes.begin(), codes.end());
}

// The figures of the worst path from rank 0 in a described or measured topology.
Result<plan::Network> network_of(const std::string& path, int ranks) {
  TRIREME_ASSIGN_OR_RETURN(const std::string text, read_file(path));
  TRIREME_ASSIGN_OR_RETURN(const Topology topology, topology_from_json(text));
  TRIREME_ASSIGN_OR_RETURN(const auto model, plan::NetworkModel::make(topology, ranks));
  plan::Network network{0, 0, model->work_s_per_byte()};
  for (int peer = 1; peer < ranks; ++peer) {
    const plan::Path way = model->path(0, peer);
    network.alpha_s = std::max(network.alpha_s, way.latency_s + 2 * model->message_s());
    for (int hop = 0; hop < way.count; ++hop) {
      network.beta_s_per_byte =
          std::max(network.beta_s_per_byte, model->seconds_per_byte(way.hops[static_cast<std::size_t>(hop)]));
    }
  }
  return network;
}

int explain(const Options& options) {
  std::shared_ptr<TuningTable> table;
  const std::string text = options.topology.empty() ? load_tuning() : "";
  if (!text.empty()) table = std::make_shared<TuningTable>(tuning_from_json(text).value());
  plan::Request request;
  request.ranks = options.ranks > 0 ? options.ranks : table != nullptr ? table->ranks : 2;
  request.element_bytes = 4;
  request.count = 1;
  bool known = false;
  for (int i = 0; i < plan::kCollectiveCount && !known; ++i) {
    request.collective = static_cast<plan::Collective>(i);
    known = plan::to_string(request.collective) == options.explain;
  }
  if (!known) return fail(invalid_argument("no collective is called '" + options.explain + "'"));
  if (request.ranks < 2) return fail(invalid_argument("--ranks must be 2 or more"));
  const Result<std::uint64_t> bytes = parse_bytes(options.size);
  if (!bytes.is_ok()) return fail(bytes.status());
  const std::int64_t widest = std::max(plan::input_elements(request, 0), plan::output_elements(request, 0));
  request.count = static_cast<std::int64_t>(*bytes) / 4 / std::max<std::int64_t>(1, widest);
  const auto forced = parse_forced_algorithms(environment("TRIREME_ALGORITHM").value_or(""));
  if (!forced.is_ok()) return fail(forced.status());
  plan::Network network = table != nullptr ? table->network : plan::Network();
  if (!options.topology.empty()) {
    const Result<plan::Network> described = network_of(options.topology, request.ranks);
    if (!described.is_ok()) return fail(described.status());
    network = *described;
  }
  fmt::print("{}", Selector(network, *forced, table).explain(request));
  if (table == nullptr && options.topology.empty()) {
    fmt::print("  no tuning table of this machine: run trireme tune to measure one\n");
  }
  return 0;
}

int run(const Options& options) {
  if (!options.explain.empty()) return explain(options);
  Result<std::shared_ptr<World>> world = World::join();
  if (!world.is_ok()) return fail(world.status());
  if (world.value()->rank() == 0) {
    // Better now than after minutes of measuring.
    const Result<std::string> path = options.output.empty() ? tuning_path() : Result<std::string>(options.output);
    const Status fits = path.is_ok() && !options.output.empty() ? check_can_write(*path) : path.status();
    if (!fits.is_ok()) return fail(fits);
  }
  if (world.value()->size() > 1) return measure_rank(options, world.value());
  world.value().reset();
  return measure_threads(options);
}

int main_of(int argc, char** argv) {
  Options options;
  CLI::App app("Measures the algorithms on this machine, for the choice among them.", "trireme tune");
  app.footer(kExamples);
  app.add_option("--ranks", options.ranks, "ranks to measure with, or to explain for; default: processors, 2 to 8")
      ->check(CLI::Range(2, 1 << 20));
  app.add_option("--output", options.output, "file to write; default: TRIREME_TUNING, or one per machine");
  app.add_option("--largest", options.measure.largest_bytes, "largest size to measure, bytes")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{4}, std::int64_t{1} << 40));
  app.add_option("--budget", options.measure.budget_ms, "milliseconds per algorithm and size")
      ->capture_default_str()
      ->check(CLI::Range(0.001, 3.6e6));
  app.add_option("--explain", options.explain, "only say what this collective would take, and why");
  app.add_option("--size", options.size, "with --explain: bytes of the larger buffer")->capture_default_str();
  app.add_option("--topology", options.topology, "with --explain: by this topology's figures");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "trireme tune: {}; see trireme tune --help\n", error.what());
    return 2;
  }
  return run(options);
}

}  // namespace
}  // namespace trireme::tune

int main(int argc, char** argv) {
  return trireme::run_main("trireme tune", [&] { return trireme::tune::main_of(argc, argv); });
}
