#include "bench/collective_perf/options.h"

#include <algorithm>

#include <fmt/format.h>
#include <trireme/base/units.h>
#include <trireme/collectives/backend.h>
#include <CLI/CLI.hpp>

#include "runtime/platform/api/system.h"

namespace trireme::bench {
namespace {

constexpr const char* kExamples =
    "\nExamples:\n"
    "  {0} -b 8 -e 64M -f 2 -t 4                        four ranks as threads of this process\n"
    "  trireme run -n 4 -- {0} -b 8 -e 64M -f 2         four ranks as processes\n"
    "  mpirun -n 4 {0} -b 1M -e 1M -d all -o all -c 1   every type and operation, checked\n"
    "Sizes take K, M and G (powers of 1024). Exit code: 0 all right, 1 wrong results or a failure, 2 bad flags.\n";

struct Texts {
  std::string min_bytes = "32M", max_bytes, step_bytes = "1M", type = "float", op = "sum";
  int factor = 1, root = 0, blocking = 1, registered = 0;
};

Result<std::uint64_t> bytes_flag(const char* flag, const std::string& text) {
  auto bytes = parse_bytes(text);
  if (!bytes.is_ok()) return bytes.status().with_context(flag);
  return bytes;
}

// Every rank has a buffer of the largest size to send from and one to receive in.
Status check_memory(std::uint64_t max_bytes) {
  const std::uint64_t available = available_memory_bytes();
  if (max_bytes <= available / 2) return {};
  return resource_exhausted(
      fmt::format("-e: every rank needs two buffers of the largest size, {} each, and this machine has {} available: "
                  "give a smaller size",
                  format_bytes(max_bytes), format_bytes(available)));
}

Status take_sizes(const Texts& texts, PerfOptions& options) {
  TRIREME_ASSIGN_OR_RETURN(options.min_bytes, bytes_flag("-b", texts.min_bytes));
  TRIREME_ASSIGN_OR_RETURN(options.max_bytes,
                           bytes_flag("-e", texts.max_bytes.empty() ? texts.min_bytes : texts.max_bytes));
  TRIREME_ASSIGN_OR_RETURN(options.step_bytes, bytes_flag("-i", texts.step_bytes));
  if (options.max_bytes < options.min_bytes) {
    return invalid_argument(
        fmt::format("-e {} is below -b {}: give the larger size to -e", texts.max_bytes, texts.min_bytes));
  }
  if (texts.factor < 1)
    return invalid_argument(fmt::format("-f {}: expected 1 (add -i bytes each step) or more", texts.factor));
  if (texts.factor == 1 && options.step_bytes == 0)
    return invalid_argument("-i 0 never reaches -e: give a step, or a factor with -f");
  if (texts.factor > 1 && options.min_bytes == 0)
    return invalid_argument("-b 0 with -f never grows: start at 1 byte or more, or use -i");
  options.step_factor = static_cast<std::uint64_t>(texts.factor);
  return check_memory(options.max_bytes);
}

Status take_types(plan::Collective collective, const Texts& texts, PerfOptions& options) {
  if (texts.type == "all") {
    options.types.clear();
    for (int type = 0; type < kDataTypeCount; ++type) options.types.push_back(static_cast<DataType>(type));
  } else {
    auto type = parse_data_type(texts.type);
    if (!type.is_ok()) return invalid_argument("-d: " + type.status().message() + ", or all");
    options.types = {type.value()};
  }
  if (!plan::reduces(collective)) return {};
  if (texts.op == "all") {
    options.ops.clear();
    for (int op = 0; op < kReduceOpCount; ++op) options.ops.push_back(static_cast<ReduceOp>(op));
    return {};
  }
  auto op = parse_reduce_op(texts.op);
  if (!op.is_ok()) return invalid_argument("-o: " + op.status().message() + ", or all");
  options.ops = {op.value()};
  return {};
}

Status check_numbers(const Texts& texts, const PerfOptions& options) {
  struct Number {
    const char* flag;
    int value;
    int least;
  };
  for (const Number& number :
       {Number{"-n", options.iterations, 1}, Number{"-w", options.warmup, 0}, Number{"-m", options.aggregated, 1},
        Number{"-c", options.checks, 0}, Number{"-t", options.threads, 1}, Number{"-g", options.devices_per_thread, 1},
        Number{"-r", texts.root, -1}}) {
    if (number.value < number.least) {
      return invalid_argument(fmt::format("{} {}: expected {} or more", number.flag, number.value, number.least));
    }
  }
  constexpr std::int64_t kMostThreads = 1024;
  if (std::int64_t{options.threads} * options.devices_per_thread > kMostThreads) {
    return invalid_argument(fmt::format("-t {} -g {}: at most {} ranks are threads of one process", options.threads,
                                        options.devices_per_thread, kMostThreads));
  }
  if (texts.blocking != 0 && texts.blocking != 1)
    return invalid_argument(fmt::format("-z {}: expected 0 or 1", texts.blocking));
  if (texts.registered != 0 && texts.registered != 1)
    return invalid_argument(fmt::format("-R {}: expected 0 or 1", texts.registered));
  const std::vector<std::string> known = backend_names();
  for (const std::string& backend : options.backends()) {
    if (std::find(known.begin(), known.end(), backend) != known.end()) continue;
    return invalid_argument(
        fmt::format("--backend or --compare {}: expected one of {}", backend, fmt::join(known, ", ")));
  }
  return {};
}

void declare(CLI::App& app, Texts& texts, PerfOptions& options) {
  app.set_help_flag("-h,--help", "Print this text");
  app.add_option("-b,--minbytes", texts.min_bytes, "Smallest size (default 32M)");
  app.add_option("-e,--maxbytes", texts.max_bytes, "Largest size (default: that of -b)");
  app.add_option("-i,--stepbytes", texts.step_bytes, "Step between sizes (default 1M)");
  app.add_option("-f,--stepfactor", texts.factor, "Factor between sizes, instead of a step");
  app.add_option("-n,--iters", options.iterations, "Iterations that are timed (default 20)");
  app.add_option("-w,--warmup_iters", options.warmup, "Iterations before (default 5)");
  app.add_option("-m,--agg_iters", options.aggregated, "Operations in flight per iteration, with -z 0 (default 1)");
  app.add_option("-c,--check", options.checks, "Check results this many times; 0: never (default 1)");
  app.add_option("-d,--datatype", texts.type, "Type of elements, or all (default float)");
  app.add_option("-o,--op", texts.op, "Reduction, or all (default sum)");
  app.add_option("-r,--root", texts.root, "Root; -1: every rank in turn (default 0)");
  app.add_option("-z,--blocking", texts.blocking, "1: blocking calls; 0: asynchronous ones (default 1)");
  app.add_option("-R,--local_register", texts.registered,
                 "1: buffers in memory that the ranks of a host share (Communicator::allocate) (default 0)");
  app.add_option("-t,--nthreads", options.threads, "Ranks as threads, when this process is alone");
  app.add_option("-g,--ngpus", options.devices_per_thread, "Ranks per thread: multiplies -t");
  app.add_option("-J,--json", options.json_path, "Also write the rows to this file");
  app.add_option("--backend", options.backend, "Who communicates: ours, mpi or nccl (default ours)");
  app.add_option("--compare", options.compare, "More backends, measured side by side: mpi,nccl")->delimiter(',');
  app.add_option("--algorithm", options.algorithm, "Force an algorithm (as TRIREME_ALGORITHM)");
  app.add_option("--transport", options.transport, "Force a transport (as TRIREME_TRANSPORT)");
  app.add_flag("--reproducible", options.reproducible, "Floating-point sums whose bits do not depend on order");
  app.add_flag("--limit", options.limit,
               "Also time the loads, additions and stores of the same work, by all ranks at once, with no "
               "synchronisation between them: the most that this host's memory allows (ranks of one host)");
  app.add_flag("--rewrite", options.rewrites,
               "Write the inputs and read the outputs before each iteration; times are medians then");
  app.add_flag("--pin", options.pins, "Bind each rank to a processor of its own");
  app.add_option("-T,--timeout", options.timeout_ms, "Deadline of each call in milliseconds");
}

}  // namespace

Result<PerfOptions> parse_perf_options(const Subject& subject, int argc, const char* const* argv, std::string& help) {
  const std::string program(subject.program);
  CLI::App app("Times and checks " + std::string(subject.op) + " between all ranks", program);
  app.footer(fmt::format(fmt::runtime(kExamples), program));
  PerfOptions options;
  Texts texts;
  declare(app, texts, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    help = app.help();
    return options;
  } catch (const CLI::ParseError& error) {
    return invalid_argument(fmt::format("{} ({} -h lists the flags)", error.what(), program));
  }
  TRIREME_RETURN_IF_ERROR(take_sizes(texts, options));
  TRIREME_RETURN_IF_ERROR(take_types(subject.collective, texts, options));
  TRIREME_RETURN_IF_ERROR(check_numbers(texts, options));
  options.roots = {texts.root};
  options.blocking = texts.blocking == 1;
  options.registers = texts.registered == 1;
  return options;
}

std::vector<std::string> PerfOptions::backends() const {
  std::vector<std::string> all = {backend};
  for (const std::string& name : compare) {
    if (std::find(all.begin(), all.end(), name) == all.end()) all.push_back(name);
  }
  return all;
}

std::vector<std::uint64_t> sizes_of(const PerfOptions& options) {
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t bytes = options.min_bytes; bytes <= options.max_bytes;) {
    sizes.push_back(bytes);
    const std::uint64_t next = options.step_factor > 1 ? bytes * options.step_factor : bytes + options.step_bytes;
    if (next <= bytes) break;  // Past 2^64.
    bytes = next;
  }
  return sizes;
}

std::string nccl_name(DataType type) {
  switch (type) {
    case DataType::f64:
      return "double";
    case DataType::f32:
      return "float";
    case DataType::f16:
      return "half";
    case DataType::bf16:
      return "bfloat16";
    case DataType::f8_e4m3:
      return "fp8e4m3";
    case DataType::f8_e5m2:
      return "fp8e5m2";
    case DataType::i8:
      return "int8";
    case DataType::u8:
      return "uint8";
    case DataType::i32:
      return "int32";
    case DataType::u32:
      return "uint32";
    case DataType::i64:
      return "int64";
    case DataType::u64:
      return "uint64";
    case DataType::boolean:
      return "bool";
  }
  return "unknown";
}

}  // namespace trireme::bench
