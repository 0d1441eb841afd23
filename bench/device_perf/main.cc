// device_perf: copies to, from, within and between GPUs; with --channel, messages of GPU
// memory between two ranks over cuda_ipc.
// Exit codes: 0; 77 without a GPU; 2 for wrong arguments; 1 for anything else.
#include <cstdio>

#include <fmt/core.h>
#include <trireme/base/units.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "bench/device_perf/device_perf.h"
#include "runtime/platform/api/files.h"

namespace trireme::bench {
namespace {

constexpr int kNoGpu = 77;

double gigabytes_per_second(const DevicePerfRow& row) {
  return static_cast<double>(row.bytes) / row.time_us * 1e-3;
}

void print(const std::vector<DevicePerfRow>& rows) {
  fmt::print("{:<22} {:>8} {:>8} {:>12} {:>12} {:>10}\n", "kind", "from", "to", "bytes", "time us", "GB/s");
  for (const DevicePerfRow& row : rows) {
    fmt::print("{:<22} {:>8} {:>8} {:>12} {:>12.2f} {:>10.2f}\n", row.kind, row.from, row.to, row.bytes, row.time_us,
               gigabytes_per_second(row));
  }
}

std::string to_json(const std::vector<DevicePerfRow>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const DevicePerfRow& row : rows) {
    list.push_back({{"kind", row.kind},
                    {"from", row.from},
                    {"to", row.to},
                    {"bytes", row.bytes},
                    {"time_us", row.time_us},
                    {"gb_s", gigabytes_per_second(row)}});
  }
  return list.dump(1) + "\n";
}

int run(int argc, char** argv) {
  CLI::App app("What the paths of a GPU's memory do, each compared once and timed: medians.");
  std::string least = "64K";
  std::string most = "256M";
  std::string json;
  bool channel = false;
  DevicePerfOptions options;
  app.add_option("-b,--minbytes", least, "Smallest size (default 64K)");
  app.add_option("-e,--maxbytes", most, "Largest size (default 256M)");
  app.add_option("-f,--stepfactor", options.factor, "Factor between sizes (default 16)")->check(CLI::Range(2, 1 << 20));
  app.add_option("-n,--iters", options.iterations, "Iterations that are timed (default 20)")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("-J,--json", json, "Also write the rows to this file");
  app.add_flag("--channel", channel, "Messages between the two ranks of a job, instead of copies");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const auto fail = [](const Status& status) {
    fmt::print(stderr, "device_perf: {}\n", status.to_string());
    return exit_code(status.code());
  };
  const auto min_bytes = parse_bytes(least);
  const auto max_bytes = parse_bytes(most);
  if (!min_bytes.is_ok() || !max_bytes.is_ok())
    return fail(min_bytes.is_ok() ? max_bytes.status() : min_bytes.status());
  if (*min_bytes == 0 || *max_bytes < *min_bytes) {
    return fail(invalid_argument(fmt::format("-b {} -e {}: expected 1 or more, the smallest first", least, most)));
  }
  options.min_bytes = *min_bytes;
  options.max_bytes = *max_bytes;
  if (const auto gpus = find_gpus(); !gpus.is_ok()) {
    fail(gpus.status());
    return kNoGpu;
  }
  const auto rows = channel ? measure_channel(options) : measure_copies(options);
  if (!rows.is_ok()) return fail(rows.status());
  if (rows->empty()) return 0;
  print(*rows);
  if (json.empty()) return 0;
  const Status written = write_file_atomically(json, to_json(*rows));
  return written.is_ok() ? 0 : fail(written);
}

}  // namespace
}  // namespace trireme::bench

int main(int argc, char** argv) {
  return trireme::bench::run(argc, argv);
}
