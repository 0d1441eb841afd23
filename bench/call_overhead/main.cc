// call_overhead: what watching over calls costs: the flight recorder, the comparison of
// calls and the deadlines, in nanoseconds a call.
//
// The ranks, processes under any launcher, all-reduce 8 bytes.
// Two communicators are made on the same ranks, one with everything and one without
// (TRIREME_UNGUARDED), and take turns in short rounds, so that what else the machine does
// meets both alike; the medians of the rounds are compared. The recorder's own stores are
// measured alone as well, without a peer.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <trireme/collectives/communicator.h>
#include <trireme/platform/clock.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "runtime/platform/api/console.h"
#include "runtime/platform/api/files.h"
#include "runtime/telemetry/api/recorder.h"

namespace trireme {
namespace {

constexpr int kCallsPerRound = 2000;
constexpr int kRounds = 201;
constexpr int kWarmUps = 20;

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

double round_ns(Communicator& c, Status& status) {
  std::uint64_t value = 1;
  const std::uint64_t begun = tsc_now();
  for (int i = 0; i < kCallsPerRound && status.is_ok(); ++i) {
    status = c.all_reduce(&value, &value, 1, DataType::u64, ReduceOp::max);
  }
  return static_cast<double>(tsc_to_ns(tsc_now() - begun)) / kCallsPerRound;
}

Result<std::shared_ptr<Communicator>> make(const std::shared_ptr<World>& world, const char* unguarded) {
  ::setenv("TRIREME_UNGUARDED", unguarded, 1);
  return Communicator::create(world);
}

struct Figures {
  double guarded_ns = 0;
  double bare_ns = 0;
};

Result<Figures> measure(Communicator& guarded, Communicator& bare) {
  Status status;
  std::vector<double> with;
  std::vector<double> without;
  for (int round = 0; round < kRounds + kWarmUps && status.is_ok(); ++round) {
    const double a = round_ns(guarded, status);
    const double b = round_ns(bare, status);
    if (round < kWarmUps) continue;
    with.push_back(a);
    without.push_back(b);
  }
  TRIREME_RETURN_IF_ERROR(status);
  return Figures{median(with), median(without)};
}

// The stores of one recorded call: entered, started, ended; stamps read once.
double recorder_ns() {
  const auto recorder = Recorder::open({}, -1);
  const auto channel = recorder->open_channel(2, 0, {0, 1}, "shm");
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t begun = tsc_now();
    for (std::uint64_t i = 1; i <= kCallsPerRound; ++i) {
      const std::uint64_t index = channel->enter({0, DataType::u64, ReduceOp::max, i, 1, 0, 0}, begun);
      channel->start(index, 1, begun);
      channel->end(index, true, begun + 1000);
    }
    rounds.push_back(static_cast<double>(tsc_to_ns(tsc_now() - begun)) / kCallsPerRound);
  }
  return median(rounds);
}

int fail(const Status& status) {
  trireme::print_error(fmt::format("call_overhead: {}\n", status.to_string()));
  return exit_code(status.code());
}

int run_rank(const std::shared_ptr<World>& world, const std::string& json) {
  auto guarded = make(world, "0");
  if (!guarded.is_ok()) return fail(guarded.status());
  auto bare = make(world, "1");
  if (!bare.is_ok()) return fail(bare.status());
  const Result<Figures> figures = measure(**guarded, **bare);
  if (!figures.is_ok()) return fail(figures.status());
  if (world->rank() != 0) return 0;
  print_out(fmt::format("all_reduce of 8 bytes, {} ranks, median of {} rounds of {} calls\n", world->size(), kRounds,
                        kCallsPerRound));
  print_out(fmt::format("  with recorder, comparison and deadline  {:8.1f} ns a call\n", figures->guarded_ns));
  print_out(fmt::format("  without                                 {:8.1f} ns a call\n", figures->bare_ns));
  print_out(fmt::format("  their price                             {:8.1f} ns a call\n",
                        figures->guarded_ns - figures->bare_ns));
  const double stores_ns = recorder_ns();
  print_out(fmt::format("  of that the recorder's stores alone     {:8.1f} ns a call\n", stores_ns));
  if (json.empty()) return 0;
  const nlohmann::ordered_json written = {{"ranks", world->size()},
                                          {"guarded_ns", figures->guarded_ns},
                                          {"bare_ns", figures->bare_ns},
                                          {"price_ns", figures->guarded_ns - figures->bare_ns},
                                          {"recorder_ns", stores_ns}};
  const Status status = write_file_atomically(json, written.dump() + "\n");
  return status.is_ok() ? 0 : fail(status);
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  CLI::App app("Measures what recorder, comparison of calls and deadlines add to a call", "call_overhead");
  std::string json;
  app.add_option("-J,--json", json, "Also write the figures to this file");
  app.footer("Example: trireme run -n 2 -- call_overhead");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  auto world = trireme::World::join();
  if (!world.is_ok()) return trireme::fail(world.status());
  if ((*world)->size() < 2) {
    trireme::print_error("call_overhead: start it as two ranks or more: trireme run -n 2 -- call_overhead\n");
    return 2;
  }
  return trireme::run_rank(*world, json);
}
