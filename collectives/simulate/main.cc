// trireme simulate: replays the plans that would run, on a network that need not exist.
#include <algorithm>
#include <cstdio>

#include <fmt/core.h>
#include <trireme/base/data_type.h>
#include <trireme/base/units.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "collectives/execute/arithmetic.h"
#include "collectives/simulate/figure.h"
#include "collectives/simulate/study.h"
#include "runtime/platform/api/console.h"
#include "runtime/platform/api/files.h"

namespace trireme::simulate {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  trireme simulate collective --op all_reduce --ranks 1024 --size 1G --topology network.json\n"
    "  trireme simulate collective --op broadcast --ranks 8 --size 64M --topology network.json --algorithm "
    "binomial_tree\n"
    "  trireme simulate collective --op all_gather --ranks 32 --size 1G --topology network.json --figure busbw.svg\n"
    "The topology file is docs/formats/topology.md; p2p_matrix --json measures one.\n";

struct Options {
  std::string op = "all_reduce";
  int ranks = 0;
  std::string size;
  std::string topology;
  std::string algorithm;
  std::string type = "f32";
  std::string figure;
  std::int64_t most_rounds = 100'000'000;
  bool json = false;
  bool expand = false;
};

int fail(const Status& status) {
  fmt::print(stderr, "trireme simulate: {}\n", status.message());
  return exit_code(status.code());
}

Result<Topology> read_topology(const std::string& path) {
  TRIREME_ASSIGN_OR_RETURN(const std::string text, read_file(path));
  Result<Topology> topology = topology_from_json(text);
  if (!topology.is_ok()) return topology.status().with_context(path);
  return topology;
}

Result<Question> question_of(const Options& options) {
  Question question;
  TRIREME_ASSIGN_OR_RETURN(question.collective, parse_collective(options.op));
  TRIREME_ASSIGN_OR_RETURN(question.bytes, parse_bytes(options.size));
  TRIREME_ASSIGN_OR_RETURN(const DataType type, parse_data_type(options.type));
  question.element_bytes = static_cast<std::int64_t>(size_of(type));
  question.wide = is_wide_reduction(type, ReduceOp::sum);
  if (options.ranks < 2) return invalid_argument("--ranks must be 2 or more: one rank sends nothing");
  question.ranks = options.ranks;
  question.algorithm = options.algorithm;
  question.options.use_symmetry = !options.expand;
  question.options.most_rounds = options.most_rounds;
  return question;
}

nlohmann::ordered_json to_json(const Question& question, const Candidate& candidate) {
  return {{"op", plan::to_string(question.collective)},
          {"ranks", question.ranks},
          {"bytes", question.bytes},
          {"algorithm", candidate.algorithm},
          {"time_us", candidate.replay.seconds * 1e6},
          {"busbw_gb_s", candidate.busbw_gb_s},
          {"bottleneck", candidate.replay.bottleneck},
          {"bottleneck_which", candidate.replay.bottleneck_which},
          {"bottleneck_share", candidate.replay.bottleneck_share}};
}

void print_json(const Question& question, const std::vector<Candidate>& candidates) {
  nlohmann::ordered_json document = to_json(question, *best_of(candidates));
  document["candidates"] = nlohmann::ordered_json::array();
  for (const Candidate& candidate : candidates) {
    if (candidate.refused.empty()) {
      document["candidates"].push_back(to_json(question, candidate));
    } else {
      document["candidates"].push_back({{"algorithm", candidate.algorithm}, {"refused", candidate.refused}});
    }
  }
  fmt::print("{}\n", document.dump(1));
}

void print_table(const Question& question, const std::vector<Candidate>& candidates) {
  const Candidate* best = best_of(candidates);
  fmt::print("{} of {} over {} ranks: {} takes {:.1f} us, {:.2f} GB/s busbw; limited by {}\n\n",
             plan::to_string(question.collective), format_bytes(question.bytes), question.ranks, best->algorithm,
             best->replay.seconds * 1e6, best->busbw_gb_s, best->replay.bottleneck);
  fmt::print("  {:<20} {:>14} {:>12} {:>8}  {:<14} {:>5}  {}\n", "algorithm", "time (us)", "busbw (GB/s)", "vs best",
             "limited by", "busy", "which");
  for (const Candidate& candidate : candidates) {
    if (!candidate.refused.empty()) {
      fmt::print("  {:<20} {}\n", candidate.algorithm, candidate.refused);
      continue;
    }
    const plan::Replay& replay = candidate.replay;
    fmt::print("  {:<20} {:>14.1f} {:>12.2f} {:>8.2f}  {:<14} {:>4.0f}%  {}\n", candidate.algorithm,
               replay.seconds * 1e6, candidate.busbw_gb_s, replay.seconds / best->replay.seconds, replay.bottleneck,
               replay.bottleneck_share * 100, replay.bottleneck_which);
  }
}

// Bus bandwidth of every algorithm from 1 KiB to the size asked for.
Status write_figure(const std::string& path, Question question, const plan::NetworkModel& network) {
  const std::uint64_t largest = question.bytes;
  std::vector<Series> series;
  for (std::uint64_t bytes = std::min<std::uint64_t>(largest, 1024); bytes > 0 && bytes <= largest; bytes *= 4) {
    question.bytes = bytes;
    TRIREME_ASSIGN_OR_RETURN(const std::vector<Candidate> candidates, study(question, network));
    for (const Candidate& candidate : candidates) {
      if (!candidate.refused.empty() || candidate.busbw_gb_s <= 0) continue;
      auto found = std::find_if(series.begin(), series.end(),
                                [&](const Series& one) { return one.name == candidate.algorithm; });
      if (found == series.end()) found = series.insert(series.end(), {candidate.algorithm, {}});
      found->points.emplace_back(static_cast<double>(bytes), candidate.busbw_gb_s);
    }
  }
  const std::string title =
      fmt::format("{} over {} ranks, simulated", plan::to_string(question.collective), question.ranks);
  return write_file_atomically(path, draw_figure(title, "busbw (GB/s)", series));
}

int run(const Options& options) {
  const Result<Question> question = question_of(options);
  if (!question.is_ok()) return fail(question.status());
  const Result<Topology> topology = read_topology(options.topology);
  if (!topology.is_ok()) return fail(topology.status());
  const auto network = plan::NetworkModel::make(*topology, question->ranks);
  if (!network.is_ok()) return fail(network.status());
  const auto candidates = study(*question, *network.value());
  if (!candidates.is_ok()) return fail(candidates.status());
  if (best_of(*candidates) == nullptr) {
    std::string reasons;
    for (const Candidate& candidate : *candidates) reasons += "\n  " + candidate.algorithm + ": " + candidate.refused;
    return fail(unsupported("no algorithm could be replayed:" + reasons));
  }
  if (options.json) {
    print_json(*question, *candidates);
  } else {
    print_table(*question, *candidates);
  }
  if (options.figure.empty()) return 0;
  const Status written = write_figure(options.figure, *question, *network.value());
  return written.is_ok() ? 0 : fail(written);
}

int main_of(int argc, char** argv) {
  Options options;
  CLI::App app("Replays communication plans on a described or measured network.", "trireme simulate");
  app.footer(kExamples);
  app.require_subcommand(1);
  CLI::App* collective = app.add_subcommand("collective", "time, bus bandwidth and bottleneck of one collective call");
  collective->add_option("--op", options.op, "all_reduce, all_gather, ...")->capture_default_str();
  collective->add_option("--ranks", options.ranks, "number of ranks")->required();
  collective->add_option("--size", options.size, "bytes of the larger buffer, as 1G")->required();
  collective->add_option("--topology", options.topology, "topology file")->required();
  collective->add_option("--algorithm", options.algorithm, "only this one; default: all that can");
  collective->add_option("--type", options.type, "element type of a sum")->capture_default_str();
  collective->add_flag("--json", options.json, "print one JSON object: the fastest, and all candidates");
  collective->add_option("--figure", options.figure, "write bus bandwidth against size as SVG");
  collective->add_flag("--expand", options.expand, "replay every rank, though ranks are alike");
  collective->add_option("--most-rounds", options.most_rounds, "refuse algorithms with more rounds to replay; 0: none")
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "trireme simulate: {}; see trireme simulate --help\n", error.what());
    return 2;
  }
  return run(options);
}

}  // namespace
}  // namespace trireme::simulate

int main(int argc, char** argv) {
  return trireme::run_main("trireme simulate", [&] { return trireme::simulate::main_of(argc, argv); });
}
