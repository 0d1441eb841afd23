// train_perf: how long a training step takes, beside the matrix products it consists of.
//
// Steps and floor alternate in one run, so that both see the same machine; medians are
// shown. Alone it measures one rank; under `trireme run -n N` or mpirun it measures N
// ranks that share the batch, each beside the floor of its own share.
#include <algorithm>
#include <functional>

#include <fmt/core.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <trireme/base/partition.h>
#include <trireme/base/philox.h>
#include <trireme/kernels/kernel_choice.h>
#include <trireme/parallel/training_step.h>
#include <trireme/platform/clock.h>

#include "bench/train_perf/floor.h"
#include "runtime/platform/api/console.h"
#include "runtime/platform/api/files.h"
#include "runtime/platform/api/system.h"

namespace trireme::bench {
namespace {

struct Options {
  GptConfig model{4, 256, 4, 256, 256, true};
  std::int64_t batch = 4;
  int threads = 0;
  int iterations = 20;
  std::string dtype = "f32";
  std::string json;
};

struct Row {
  std::string name;
  double step_ms = 0;
  double tokens_per_second = 0;
  double gflop_per_s = 0;
  double share_of_peak = 0;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double time_ms(const std::function<void()>& body) {
  const std::uint64_t begin_ns = system_clock().now_ns();
  body();
  return static_cast<double>(system_clock().now_ns() - begin_ns) / 1e6;
}

// Random tokens; a step's time does not depend on what they are.
std::vector<std::int32_t> random_tokens(std::int64_t count, std::int64_t vocabulary) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] =
        static_cast<std::int32_t>(philox_below(make_philox_key(1, 0, 0), 0, i, static_cast<std::uint64_t>(vocabulary)));
  }
  return tokens;
}

Row make_row(const std::string& name, double ms, double flops, std::int64_t tokens, double peak) {
  const double gflop_per_s = flops / ms / 1e6;
  return {name, ms, static_cast<double>(tokens) / ms * 1e3, gflop_per_s, gflop_per_s / peak};
}

// Alternates steps and floor; rows "trireme" and "floor" of this rank's share.
Result<std::vector<Row>> measure(const Options& options, Trainer& trainer, Floor& floor, const Batch& batch,
                                 int ranks) {
  Status status;
  const auto step = [&] {
    const Result<StepReport> report = trainer.step(batch, 1e-4);
    if (status.is_ok()) status = report.status();
  };
  for (int warm = 0; warm < 3 && status.is_ok(); ++warm) step();
  floor.run();
  std::vector<double> step_ms, floor_ms;
  for (int i = 0; i < options.iterations && status.is_ok(); ++i) {
    step_ms.push_back(time_ms(step));
    floor_ms.push_back(time_ms([&] { floor.run(); }));
  }
  TRIREME_RETURN_IF_ERROR(status);
  const double peak = floor.measure_peak_gflop_per_s() * ranks;
  const std::int64_t tokens = batch.global_targets;
  const double step_flops = options.model.flops_per_token() * static_cast<double>(tokens);
  return std::vector<Row>{make_row("trireme", median(step_ms), step_flops, tokens, peak),
                          make_row("floor", median(floor_ms), floor.flops() * ranks, tokens, peak)};
}

Status show(const Options& options, const std::vector<Row>& rows, int ranks, int threads) {
  print_out(fmt::format(
      "{} layers, {} wide, {} heads, {} tokens x {} sequences, vocabulary {}, {}, {} rank(s) x {} thread(s), {}\n",
      options.model.layers, options.model.width, options.model.heads, options.model.tokens, options.batch,
      options.model.vocabulary, options.dtype, ranks, threads, kernels::describe_kernels()));
  print_out(
      fmt::format("{:<10} {:>10} {:>12} {:>10} {:>14}\n", "name", "step ms", "tokens/s", "GFLOP/s", "share of peak"));
  nlohmann::json list = nlohmann::json::array();
  for (const Row& row : rows) {
    print_out(fmt::format("{:<10} {:>10.2f} {:>12.0f} {:>10.1f} {:>13.1f}%\n", row.name, row.step_ms,
                          row.tokens_per_second, row.gflop_per_s, 100 * row.share_of_peak));
    list.push_back({{"name", row.name},
                    {"dtype", options.dtype},
                    {"ranks", ranks},
                    {"threads", threads},
                    {"vocab", options.model.vocabulary},
                    {"step_ms", row.step_ms},
                    {"tokens_per_second", row.tokens_per_second},
                    {"gflop_per_s", row.gflop_per_s},
                    {"share_of_peak", row.share_of_peak}});
  }
  print_out(fmt::format("the floor is {:.1f}% of the step\n", 100 * rows[1].step_ms / rows[0].step_ms));
  if (options.json.empty()) return Status::ok();
  return write_file_atomically(options.json, list.dump(2) + "\n").with_context("--json");
}

Status run(const Options& options) {
  TRIREME_ASSIGN_OR_RETURN(const DataType type, parse_data_type(options.dtype));
  TRIREME_ASSIGN_OR_RETURN(const std::shared_ptr<World> world, World::join());
  TRIREME_ASSIGN_OR_RETURN(const Mesh mesh, Mesh::create({}, world->rank(), world->size()));
  std::shared_ptr<Communicator> communicator;
  if (world->size() > 1) {
    TRIREME_ASSIGN_OR_RETURN(communicator, Communicator::create(world));
  }
  const int cores = usable_cpu_count();
  const int threads = options.threads > 0 ? options.threads : std::max(1, cores / world->local_size());
  ThreadPool pool(threads);

  const Range share = balanced_part(options.batch, world->rank(), world->size());
  if (share.size() < 1) return invalid_argument("--batch is smaller than the number of ranks");
  TrainerOptions trainer_options;
  trainer_options.tokens_per_sequence = options.model.tokens;
  trainer_options.microbatch = share.size();
  trainer_options.product_type = type;
  TRIREME_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, make_gpt(options.model));
  TRIREME_ASSIGN_OR_RETURN(const std::unique_ptr<Trainer> trainer,
                           Trainer::create(std::move(model), trainer_options, mesh, communicator.get(), pool));
  const std::int64_t rows = share.size() * options.model.tokens;
  const std::vector<std::int32_t> tokens = random_tokens(rows + 1, options.model.vocabulary);
  Batch batch;
  batch.tokens = tokens.data();
  batch.targets = tokens.data() + 1;
  batch.sequences = share.size();
  batch.global_targets = options.batch * options.model.tokens;
  Floor floor(step_products(options.model, rows), type, pool);
  TRIREME_ASSIGN_OR_RETURN(const std::vector<Row> result, measure(options, *trainer, floor, batch, world->size()));
  if (world->rank() == 0) TRIREME_RETURN_IF_ERROR(show(options, result, world->size(), threads));
  return communicator ? communicator->barrier() : Status::ok();
}

}  // namespace
}  // namespace trireme::bench

int main(int argc, char** argv) {
  trireme::bench::Options options;
  CLI::App app("Measures a training step beside the matrix products it consists of.", "train_perf");
  app.option_defaults()->always_capture_default();
  app.add_option("--layers", options.model.layers, "Transformer blocks");
  app.add_option("--dim", options.model.width, "Width of the activations");
  app.add_option("--heads", options.model.heads, "Attention heads");
  app.add_option("--seq", options.model.tokens, "Tokens in a sequence");
  app.add_option("--vocab", options.model.vocabulary, "Vocabulary");
  app.add_option("--batch", options.batch, "Sequences in a step, over all ranks");
  app.add_option("--threads", options.threads, "Threads of each rank (0: cores / ranks)");
  app.add_option("--iterations", options.iterations, "Steps measured")->check(CLI::Range(1, 1'000'000));
  app.add_option("--dtype", options.dtype, "f32 or bf16");
  app.add_option("--json", options.json, "File for the rows");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const trireme::Status status = trireme::bench::run(options);
  if (status.is_ok()) return 0;
  trireme::print_error(fmt::format("train_perf: {}\n", status.to_string()));
  return trireme::exit_code(status.code());
}
