// launch_perf: how fast a job comes up, and what a rank of it weighs.
//
// Every rank joins the job, creates a communicator and passes a barrier; rank 0 prints
// when the slowest rank had done each, and the memory that is each rank's own. Works
// under any launcher:
//
//   trireme run --oversubscribe -n 256 -- launch_perf --since $(date +%s.%N)
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <trireme/collectives/communicator.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "runtime/platform/api/console.h"
#include "runtime/platform/api/files.h"
#include "runtime/platform/api/system.h"

namespace trireme {
namespace {

struct Options {
  double since = 0;  // Seconds of the epoch.
  std::string json;
};

// What each rank tells: microseconds after the start, and bytes.
enum Figure : std::size_t { joined_us, created_us, ready_us, private_bytes, kFigures };
using Figures = std::array<std::uint64_t, kFigures>;

double now_s() {
  return static_cast<double>(wall_clock_ns()) * 1e-9;
}

// Pages that no other process has: neither the program's file nor memory shared with peers.
std::uint64_t own_memory() {
  const Result<std::string> text = read_file("/proc/self/smaps_rollup");
  if (!text.is_ok()) return 0;
  std::uint64_t kibibytes = 0;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("Private_", 0) != 0) continue;
    kibibytes += std::strtoull(line.c_str() + line.find(':') + 1, nullptr, 10);
  }
  return kibibytes * 1024;
}

int fail(const Status& status) {
  print_error(fmt::format("launch_perf: {}\n", status.to_string()));
  return exit_code(status.code());
}

int report(const Options& options, const std::vector<std::uint64_t>& all, int ranks) {
  const auto column = [&](Figure figure) {
    std::vector<std::uint64_t> values;
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) {
      values.push_back(all[rank * kFigures + figure]);
    }
    std::sort(values.begin(), values.end());
    return values;
  };
  const auto slowest_s = [&](Figure figure) { return static_cast<double>(column(figure).back()) * 1e-6; };
  const std::vector<std::uint64_t> memory = column(private_bytes);
  print_out(fmt::format(
      "{} ranks: all joined after {:.3f} s, communicator created after {:.3f} s, first barrier passed after "
      "{:.3f} s; own memory of a rank: median {:.2f} MB, largest {:.2f} MB\n",
      ranks, slowest_s(joined_us), slowest_s(created_us), slowest_s(ready_us),
      static_cast<double>(memory[memory.size() / 2]) * 1e-6, static_cast<double>(memory.back()) * 1e-6));
  if (options.json.empty()) return 0;
  const nlohmann::ordered_json figures = {{"ranks", ranks},
                                          {"joined_s", slowest_s(joined_us)},
                                          {"created_s", slowest_s(created_us)},
                                          {"ready_s", slowest_s(ready_us)},
                                          {"own_bytes_median", memory[memory.size() / 2]},
                                          {"own_bytes_largest", memory.back()}};
  const Status written = write_file_atomically(options.json, figures.dump() + "\n");
  return written.is_ok() ? 0 : fail(written);
}

int run(const Options& options) {
  const double begun = options.since > 0 ? options.since : now_s();
  Figures figures{};
  const auto stamp = [&](Figure figure) {
    figures[figure] = static_cast<std::uint64_t>(std::max(0.0, now_s() - begun) * 1e6);
  };
  auto world = World::join();
  if (!world.is_ok()) return fail(world.status());
  stamp(joined_us);
  auto created = Communicator::create(*world);
  if (!created.is_ok()) return fail(created.status());
  Communicator& communicator = **created;
  stamp(created_us);
  const Status ready = communicator.barrier();
  if (!ready.is_ok()) return fail(ready);
  stamp(ready_us);
  figures[private_bytes] = own_memory();
  std::vector<std::uint64_t> all(static_cast<std::size_t>(communicator.size()) * kFigures);
  const Status gathered = communicator.all_gather(figures.data(), all.data(), kFigures, DataType::u64);
  if (!gathered.is_ok()) return fail(gathered);
  return communicator.rank() == 0 ? report(options, all, communicator.size()) : 0;
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  CLI::App app("Measures how fast a job comes up, and what a rank of it weighs", "launch_perf");
  trireme::Options options;
  app.add_option("--since", options.since, "When the launcher was started, as date +%s.%N prints it (default: now)");
  app.add_option("-J,--json", options.json, "Also write the figures to this file");
  app.footer("Example: trireme run --oversubscribe -n 256 -- launch_perf --since $(date +%s.%N)");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return trireme::run(options);
}
