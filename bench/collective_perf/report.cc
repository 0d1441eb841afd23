#include "bench/collective_perf/report.h"

#include <cstdio>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "runtime/platform/api/files.h"

namespace trireme::bench {
namespace {

std::string wrong_text(const Timing& timing) {
  return timing.wrong < 0 ? "N/A" : std::to_string(timing.wrong);
}

// As many digits as fit nccl-tests' columns.
std::string time_text(double time_us) {
  if (time_us >= 10000.0) return fmt::format("{:.0f}", time_us);
  return time_us >= 100.0 ? fmt::format("{:.1f}", time_us) : fmt::format("{:.2f}", time_us);
}

std::string limit_text(const Timing& timing) {
  if (timing.limit_gb_s <= 0) return fmt::format("{:>6}  {:>5}", "N/A", "N/A");
  return fmt::format("{:>6.2f}  {:>4.0f}%", timing.limit_gb_s, 100 * timing.busbw_gb_s / timing.limit_gb_s);
}

void say(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace

void print_header(const PerfOptions& options, const std::vector<std::string>& ranks,
                  const std::vector<std::string>& backends) {
  const std::string step = options.step_factor > 1 ? fmt::format("{}(factor)", options.step_factor)
                                                   : fmt::format("{}(bytes)", options.step_bytes);
  std::string text = fmt::format(
      "# nThread {} nGpus {} minBytes {} maxBytes {} step: {} warmup iters: {} iters: {} agg iters: {} validation: {} "
      "graph: 0\n#\n",
      options.threads, options.devices_per_thread, options.min_bytes, options.max_bytes, step, options.warmup,
      options.iterations, options.aggregated, options.checks);
  text += "# Using ranks\n";
  for (const std::string& rank : ranks) text += "#  " + rank + "\n";
  for (const std::string& backend : backends) text += "# Backend " + backend + "\n";
  text += "#\n";
  if (!options.compare.empty()) {
    text += "# The last two columns: the backend, and its time out of place as a multiple of the first one's.\n";
  }
  if (options.limit) {
    text +=
        "# limit: the busbw of the same loads, additions and stores without synchronisation, out of place and in "
        "place, and the share of it that was reached.\n";
  }
  text += fmt::format(
      "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}           out-of-place                       in-place          \n", "", "",
      "", "", "");
  text += fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}  {:>7}  {:>6}  {:>6} {:>6}  {:>7}  {:>6}  {:>6} {:>6}{}\n",
                      "size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time", "algbw",
                      "busbw", "#wrong", options.limit ? "   limit      %   limit      %" : "");
  text += fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}  {:>7}  {:>6}  {:>6} {:>6}  {:>7}  {:>6}  {:>6} {:>6}\n",
                      "(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)", "");
  say(text);
}

void print_refusal(const Status& why) {
  say("# " + why.to_string() + "\n");
}

void print_row(const Row& row, const PerfOptions& options) {
  std::string text = fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}", row.bytes, row.count, nccl_name(row.type),
                                 row.redop, row.root);
  for (const Timing* timing : {&row.out_of_place, &row.in_place}) {
    if (timing == &row.in_place && !row.has_in_place) {
      text += fmt::format("  {:>7}  {:>6}  {:>6}  {:>5}", "N/A", "N/A", "N/A", "N/A");
      break;
    }
    text += fmt::format("  {:>7}  {:>6.2f}  {:>6.2f}  {:>5}", time_text(timing->time_us), timing->algbw_gb_s,
                        timing->busbw_gb_s, wrong_text(*timing));
  }
  if (options.limit) text += "  " + limit_text(row.out_of_place) + "  " + limit_text(row.in_place);
  if (!options.compare.empty()) text += fmt::format("  {:>6}  {:>6.2f}", row.backend, row.ratio);
  say(text + "\n");
}

std::int64_t print_summary(const std::vector<Row>& rows, const PerfOptions& options) {
  double busbw = 0;
  int timings = 0;
  std::int64_t wrong = 0;
  std::int64_t rows_wrong = 0;
  for (const Row& row : rows) {
    for (const Timing* timing : {&row.out_of_place, &row.in_place}) {
      if (timing == &row.in_place && !row.has_in_place) continue;
      ++timings;
      busbw += timing->busbw_gb_s;
      wrong += timing->wrong > 0 ? timing->wrong : 0;
      rows_wrong += timing->wrong > 0;
    }
  }
  const double average = timings == 0 ? 0 : busbw / timings;
  std::string text = options.checks > 0 ? fmt::format("# Out of bounds values : {} {}\n", rows_wrong,
                                                      rows_wrong == 0 ? "OK" : "FAILED")
                                        : std::string("# Out of bounds values : not checked (-c 0)\n");
  text += fmt::format("# Avg bus bandwidth    : {:.6g}\n#\n", average);
  say(text);
  return wrong;
}

Status write_json(const std::string& path, const std::vector<Row>& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    for (const bool in_place : {false, true}) {
      if (in_place && !row.has_in_place) continue;
      const Timing& timing = in_place ? row.in_place : row.out_of_place;
      nlohmann::ordered_json object;
      object["op"] = row.op;
      object["type"] = std::string(to_string(row.type));
      object["redop"] = row.redop;
      object["ranks"] = row.ranks;
      object["bytes"] = row.bytes;
      object["backend"] = row.backend;
      object["in_place"] = in_place;
      object["time_us"] = timing.time_us;
      object["algbw_gb_s"] = timing.algbw_gb_s;
      object["busbw_gb_s"] = timing.busbw_gb_s;
      if (timing.limit_gb_s >= 0) object["limit_gb_s"] = timing.limit_gb_s;
      if (timing.wrong < 0) {
        object["wrong"] = nullptr;
      } else {
        object["wrong"] = timing.wrong;
      }
      list.push_back(std::move(object));
    }
  }
  return write_file_atomically(path, list.dump(1) + "\n");
}

}  // namespace trireme::bench
