// What a *_perf program was asked to do: the flags users of nccl-tests know.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <trireme/base/data_type.h>
#include <trireme/base/status.h>

#include "bench/collective_perf/subject.h"

namespace trireme::bench {

struct PerfOptions {
  std::uint64_t min_bytes = 32 << 20;
  std::uint64_t max_bytes = 32 << 20;
  std::uint64_t step_bytes = 1 << 20;  // Used when step_factor is 1.
  std::uint64_t step_factor = 1;
  int iterations = 20;
  int warmup = 5;
  int aggregated = 1;  // Operations in flight per iteration.
  int checks = 1;      // 0: results are not checked.
  bool blocking = true;
  std::vector<DataType> types = {DataType::f32};
  std::vector<ReduceOp> ops = {ReduceOp::sum};
  std::vector<int> roots = {0};  // Filled once the number of ranks is known; {-1}: all.
  int threads = 1;               // Ranks of this process when it is alone.
  int devices_per_thread = 1;    // Multiplies threads, as in nccl-tests.
  std::string backend = "ours";
  std::vector<std::string> compare;  // More backends, measured beside it.
  std::string json_path;
  std::string algorithm;
  std::string transport;
  std::int64_t timeout_ms = 0;
  bool reproducible = false;
  bool limit = false;     // The same work without synchronisation, beside every row.
  bool rewrites = false;  // Inputs are written and outputs read between iterations.
  bool registers = false;  // Buffers lie in windows of our communicator.
  bool pins = false;      // Each rank to a processor of its own.
  // All that are measured, each once.
  std::vector<std::string> backends() const;
  int local_ranks() const { return threads * devices_per_thread; }
};

// Errors: invalid_argument saying what to do. `help` gets the text of -h when that was
// asked for (and the options are then not to be used).
Result<PerfOptions> parse_perf_options(const Subject& subject, int argc, const char* const* argv, std::string& help);

// Sizes in the order they are measured.
std::vector<std::uint64_t> sizes_of(const PerfOptions& options);
// "float", "half", "fp8_e4m3": nccl-tests' names, for its table.
std::string nccl_name(DataType type);

}  // namespace trireme::bench
