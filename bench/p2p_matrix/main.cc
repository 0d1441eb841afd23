// p2p_matrix: latency and bandwidth between every two ranks, as a table for people and as
// a topology file for `trireme topo --from`, `trireme simulate` and placement.
#include <algorithm>
#include <cstdio>
#include <thread>

#include <fmt/core.h>
#include <trireme/base/units.h>
#include <trireme/collectives/communicator.h>
#include <CLI/CLI.hpp>

#include "bench/p2p_matrix/measure.h"
#include "collectives/api/job_topology.h"
#include "runtime/platform/api/console.h"
#include "runtime/platform/api/files.h"
#include "runtime/rendezvous/api/local_worlds.h"

namespace trireme::bench {
namespace {

constexpr std::uint64_t kExchangeTimeoutMs = 60'000;

struct Options {
  std::string json;
  std::string size = "4M";
  std::string transport;
  int threads = 1;
  MatrixOptions matrix;
};

int fail(const Status& status) {
  fmt::print(stderr, "p2p_matrix: {}\n", status.to_string());
  return exit_code(status.code());
}

void print_table(const char* title, const Matrix& matrix, const std::vector<double>& figures, double scale) {
  fmt::print("{}\n{:>8}", title, "from\\to");
  for (int to = 0; to < matrix.ranks; ++to) fmt::print("{:>9}", to);
  fmt::print("\n");
  for (int from = 0; from < matrix.ranks; ++from) {
    fmt::print("{:>8}", from);
    for (int to = 0; to < matrix.ranks; ++to) {
      if (from == to) {
        fmt::print("{:>9}", "-");
      } else {
        fmt::print("{:>9.2f}", figures[matrix.at(from, to)] * scale);
      }
    }
    fmt::print("\n");
  }
  fmt::print("\n");
}

void print_all(const Matrix& matrix, const Options& options) {
  print_table("# latency, us (half of a round trip of 8 bytes)", matrix, matrix.latency_us, 1);
  print_table(fmt::format("# bandwidth, GB/s (messages of {})", format_bytes(options.matrix.bytes)).c_str(), matrix,
              matrix.bytes_per_second, 1e-9);
  fmt::print("# all at once: {:.2f} GB/s in all; local work: {:.2f} GB/s a rank\n", matrix.all_bytes_per_second * 1e-9,
             matrix.work_bytes_per_second * 1e-9);
}

// The transport that carries each pair. Every rank knows its own row.
Status name_transports(Communicator& communicator, Matrix& matrix) {
  constexpr std::size_t kName = 16;
  const auto ranks = static_cast<std::size_t>(matrix.ranks);
  std::vector<char> own(ranks * kName);
  for (int peer = 0; peer < matrix.ranks; ++peer) {
    const std::string name = peer == communicator.rank() ? "" : communicator.transport_to(peer);
    std::copy_n(name.begin(), std::min(name.size(), kName - 1),
                own.begin() + static_cast<std::ptrdiff_t>(kName) * peer);
  }
  std::vector<char> all(own.size() * ranks);
  TRIREME_RETURN_IF_ERROR(communicator.all_gather(own.data(), all.data(), own.size(), DataType::u8));
  for (std::size_t pair = 0; pair < matrix.transports.size(); ++pair) {
    matrix.transports[pair] = std::string(&all[pair * kName]);
  }
  return Status::ok();
}

int run_rank(const Options& options, const std::shared_ptr<World>& world) {
  if (world->size() < 2) {
    return fail(
        invalid_argument("one rank has no pairs: start more, as in trireme run -n 4 -- p2p_matrix, or with -t 4"));
  }
  CommunicatorOptions how;
  how.transport = options.transport;
  const auto communicator = Communicator::create(world, how);
  if (!communicator.is_ok()) return fail(communicator.status());
  Result<Matrix> matrix = measure_matrix(*communicator.value(), options.matrix);
  if (!matrix.is_ok()) return fail(matrix.status());
  const Status named = name_transports(*communicator.value(), *matrix);
  if (!named.is_ok()) return fail(named);
  if (world->rank() == 0) print_all(*matrix, options);
  if (options.json.empty()) return 0;
  Result<Topology> topology = exchange_topology(*world, "p2p_matrix/topology", Deadline::after_ms(kExchangeTimeoutMs));
  if (!topology.is_ok()) return fail(topology.status());
  if (world->rank() != 0) return 0;
  add_measured_links(*topology, *matrix);
  const Status written = write_file_atomically(options.json, topology_to_json(*topology));
  return written.is_ok() ? 0 : fail(written);
}

int run_threads(const Options& options) {
  auto worlds = make_local_worlds(options.threads);
  if (!worlds.is_ok()) return fail(worlds.status());
  std::vector<int> codes(worlds.value().size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < codes.size(); ++rank) {
    threads.emplace_back([&, rank] {
      codes[rank] = run_rank(options, worlds.value()[rank]);
      worlds.value()[rank].reset();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return *std::max_element(codes.begin(), codes.end());
}

int main_of(int argc, char** argv) {
  Options options;
  CLI::App app("Measures latency and bandwidth between every two ranks.", "p2p_matrix");
  app.add_option("--json", options.json, "write the job's topology with the measured links (docs/formats/topology.md)");
  app.add_option("-b,--size", options.size, "bytes of a message, as 4M")->capture_default_str();
  app.add_option("-n,--iters", options.matrix.iterations, "messages per pair")->check(CLI::PositiveNumber);
  app.add_option("-t,--threads", options.threads, "ranks of this process, when it is alone")
      ->check(CLI::PositiveNumber);
  app.add_option("--transport", options.transport, "force shm, tcp, ...");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "p2p_matrix: {}; see p2p_matrix --help\n", error.what());
    return 2;
  }
  const Result<std::uint64_t> bytes = parse_bytes(options.size);
  if (!bytes.is_ok() || *bytes < 8)
    return fail(bytes.is_ok() ? invalid_argument("--size must be 8 or more") : bytes.status());
  options.matrix.bytes = *bytes;
  Result<std::shared_ptr<World>> world = World::join();
  if (!world.is_ok()) return fail(world.status());
  if (world.value()->size() > 1 || options.threads == 1) return run_rank(options, world.value());
  world.value().reset();
  return run_threads(options);
}

}  // namespace
}  // namespace trireme::bench

int main(int argc, char** argv) {
  return trireme::run_main("p2p_matrix", [&] { return trireme::bench::main_of(argc, argv); });
}
