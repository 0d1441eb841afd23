#include "bench/collective_perf/perf_main.h"

#include <cstdio>
#include <mutex>
#include <thread>

#include <fmt/core.h>

#include "bench/collective_perf/measure.h"
#include "bench/collective_perf/report.h"
#include "runtime/platform/api/console.h"
#include "runtime/platform/api/system.h"
#include "runtime/rendezvous/api/local_worlds.h"

namespace trireme::bench {
namespace {

void complain(const Subject& subject, const Status& status) {
  std::fprintf(stderr, "%s: %s\n", std::string(subject.program).c_str(), status.to_string().c_str());
}

// The backends that are measured, the first to compare the others with. Ours is `control`.
Result<std::vector<std::shared_ptr<Communicator>>> make_contenders(
    const PerfOptions& options, CommunicatorOptions how, const Result<std::shared_ptr<Communicator>>& control) {
  if (!control.is_ok()) return control.status();
  std::vector<std::shared_ptr<Communicator>> contenders;
  for (const std::string& backend : options.backends()) {
    if (backend == "ours") {
      contenders.push_back(control.value());
      continue;
    }
    how.backend = backend;
    how.reproducible = false;
    // Shares the control's World, which lives as long as it.
    const std::shared_ptr<World> world(control.value(), &control.value()->world());
    TRIREME_ASSIGN_OR_RETURN(contenders.emplace_back(), Communicator::create(world, how));
  }
  return contenders;
}

std::vector<std::string> describe(const std::vector<std::shared_ptr<Communicator>>& contenders) {
  std::vector<std::string> texts;
  for (const auto& contender : contenders) {
    texts.push_back(contender->backend().name + " (" + contender->backend().version + ")");
  }
  return texts;
}

// One rank's part. Returns the exit code.
int run_rank(const Subject& subject, const PerfOptions& options, std::shared_ptr<World> world) {
  if (options.pins) {
    const Status pinned = bind_to_cpu(world->local_rank());
    if (!pinned.is_ok()) {
      complain(subject, pinned);
      return exit_code(pinned.code());
    }
  }
  CommunicatorOptions how;
  how.algorithm = options.algorithm;
  how.transport = options.transport;
  how.timeout_ms = options.timeout_ms;
  how.reproducible = options.reproducible;
  how.backend = "ours";
  auto communicator = Communicator::create(world, how);
  auto contenders = make_contenders(options, how, communicator);
  if (!contenders.is_ok()) {
    complain(subject, contenders.status());
    return exit_code(contenders.status().code());
  }
  world.reset();
  Communicator& c = *communicator.value();
  if (options.roots.front() >= c.size()) {
    complain(subject,
             invalid_argument(fmt::format("-r {}: there are only ranks 0 to {}", options.roots.front(), c.size() - 1)));
    return 2;
  }
  std::vector<Row> rows;
  int refused = 0;
  std::vector<std::string> ranks;
  for (int rank = 0; rank < c.size(); ++rank) ranks.push_back(c.world().peer(rank).to_string());
  if (c.rank() == 0) print_header(options, ranks, describe(contenders.value()));
  MeasureCallbacks callbacks;
  callbacks.on_row = [&](const Row& row) {
    rows.push_back(row);
    if (c.rank() == 0) print_row(row, options);
  };
  callbacks.on_refusal = [&](const Status& why) {
    refused += 1;
    if (c.rank() == 0) print_refusal(why);
  };
  std::vector<Communicator*> measured;
  for (const auto& contender : contenders.value()) measured.push_back(contender.get());
  const Status status = measure(c, measured, subject, options, callbacks);
  if (!status.is_ok()) {
    complain(subject, status);
    return 1;
  }
  std::int64_t wrong = 0;
  for (const Row& row : rows)
    wrong += std::max<std::int64_t>(0, row.out_of_place.wrong) + std::max<std::int64_t>(0, row.in_place.wrong);
  if (c.rank() == 0) {
    print_summary(rows, options);
    if (!options.json_path.empty()) {
      const Status written = write_json(options.json_path, rows);
      if (!written.is_ok()) {
        complain(subject, written);
        return exit_code(written.code());
      }
    }
  }
  // Asked for one thing that the backend cannot do: nothing was measured.
  if (rows.empty() && refused > 0) return 2;
  return wrong > 0 ? 1 : 0;
}

int run_threads(const Subject& subject, const PerfOptions& options) {
  auto worlds = make_local_worlds(options.local_ranks());
  if (!worlds.is_ok()) {
    complain(subject, worlds.status());
    return exit_code(worlds.status().code());
  }
  std::mutex mutex;
  int worst = 0;
  std::vector<std::thread> threads;
  for (std::shared_ptr<World>& own : worlds.value()) {
    threads.emplace_back([&, world = std::move(own)]() mutable {
      const int code = run_rank(subject, options, std::move(world));
      const std::lock_guard lock(mutex);
      worst = std::max(worst, code);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return worst;
}

int run(const Subject& subject, int argc, char** argv) {
  std::string help;
  const auto options = parse_perf_options(subject, argc, argv, help);
  if (!options.is_ok()) {
    complain(subject, options.status());
    return 2;
  }
  if (!help.empty()) {
    std::fputs(help.c_str(), stdout);
    return 0;
  }
  auto world = World::join();
  if (!world.is_ok()) {
    complain(subject, world.status());
    return exit_code(world.status().code());
  }
  if (options->local_ranks() == 1) return run_rank(subject, *options, std::move(world).value());
  if (world.value()->size() > 1) {
    complain(subject, invalid_argument(fmt::format(
                          "-t and -g make ranks of a process that is alone, but {} ranks were started: leave them out",
                          world.value()->size())));
    return 2;
  }
  world.value().reset();
  return run_threads(subject, *options);
}

}  // namespace

int perf_main(const Subject& subject, int argc, char** argv) {
  return run_main(subject.program, [&] { return run(subject, argc, argv); });
}

}  // namespace trireme::bench
