// Every algorithm's plan is proved for 1 to 64 ranks; seeded mutations must be caught.
#include "collectives/algorithms/algorithm.h"

#include <gtest/gtest.h>
#include <trireme/base/philox.h>

#include <algorithm>
#include <string>
#include <vector>

#include "collectives/plan/api/check.h"

namespace trireme::plan {
namespace {

std::string describe(const Algorithm& algorithm, const Request& request) {
  return std::string(algorithm.name) + " " + std::string(to_string(request.collective)) +
         " ranks=" + std::to_string(request.ranks) + " root=" + std::to_string(request.root) +
         " count=" + std::to_string(request.count) + (request.wide ? " wide" : "");
}

std::vector<std::int64_t> counts_for(const Request& request) {
  if (request.collective == Collective::barrier) return {0};
  if (request.collective == Collective::broadcast || request.collective == Collective::reduce) {
    return {0, 1, 7, 200'000};  // The last makes several chunks.
  }
  return {0, 1, request.ranks - 1, request.ranks + 3, 1000};
}

// How many ranks a host may have in the tests of an algorithm that asks for it.
std::vector<int> hosts_for(const Algorithm& algorithm, int ranks) {
  std::vector<int> per_host;
  for (int each = 2; each < ranks; ++each) {
    if (ranks % each == 0) per_host.push_back(each);
  }
  return algorithm.name == std::string_view("hierarchical") ? per_host : std::vector<int>{0};
}

void add_requests(const Algorithm& algorithm, Request request, std::vector<Request>& requests) {
  for (std::int64_t count : counts_for(request)) {
    for (int root : {0, request.ranks / 2, request.ranks - 1}) {
      if (!is_rooted(request.collective) && root != 0) continue;
      for (bool wide : {false, true}) {
        if (wide && !reduces(request.collective)) continue;
        for (bool ordered : {false, true}) {
          request.count = count;
          request.root = root;
          request.wide = wide;
          request.ordered = ordered;
          if ((!ordered || (reduces(request.collective) && !wide)) && algorithm.supports(request)) {
            requests.push_back(request);
          }
        }
      }
    }
  }
}

std::vector<Request> requests_for(const Algorithm& algorithm, int ranks) {
  std::vector<Request> requests;
  for (int collective = 0; collective < kCollectiveCount; ++collective) {
    for (int per_host : hosts_for(algorithm, ranks)) {
      Request request{static_cast<Collective>(collective), ranks, 0, 0, 2, false};
      request.ranks_per_host = per_host;
      request.shared_memory = request.windows = true;
      if (algorithm.supports(request)) add_requests(algorithm, request, requests);
    }
  }
  return requests;
}

// Uneven parts: rank r's is (7 r mod 5) times `scale`; of an all_to_all, s to r has
// (s + 2 r) mod 4 times `scale`.
std::vector<Request> uneven_requests(Collective collective, int ranks, std::int64_t scale) {
  std::vector<Request> requests;
  for (int rank = 0; rank < ranks; ++rank) {
    Request request{collective, ranks, is_rooted(collective) ? ranks / 2 : 0, scale, 2, false};
    request.shared_memory = request.windows = true;
    for (int other = 0; other < ranks; ++other) {
      if (collective == Collective::all_to_all) {
        request.counts.push_back((rank + 2 * other) % 4 * scale);
        request.receive_counts.push_back((other + 2 * rank) % 4 * scale);
      } else {
        request.counts.push_back(other * 7 % 5 * scale);
      }
    }
    requests.push_back(request);
  }
  return requests;
}

class AlgorithmTest : public testing::TestWithParam<std::string> {
 protected:
  const Algorithm& algorithm() const { return *find_algorithm(GetParam()); }
};

TEST_P(AlgorithmTest, EveryPlanIsProved) {
  int proved = 0;
  for (int ranks = 2; ranks <= 64; ranks = ranks < 18 ? ranks + 1 : ranks + 23) {
    for (const Request& request : requests_for(algorithm(), ranks)) {
      if (ranks > 18 && request.count > 1 && request.count < 1000) continue;
      const Plan plan = make_plan(algorithm(), request);
      for (bool in_place : {false, true}) {
        const Status status = check_plan(plan, in_place);
        ASSERT_TRUE(status.is_ok()) << describe(algorithm(), request) << (in_place ? " in place" : "") << "\n"
                                    << status.to_string() << "\n"
                                    << print_program(plan.programs[0]);
        ++proved;
      }
    }
  }
  EXPECT_GE(proved, 2 * 18);
}

TEST_P(AlgorithmTest, EveryPlanIsProvedForAllRanksLong) {
  for (int ranks = 2; ranks <= 64; ++ranks) {
    for (const Request& request : requests_for(algorithm(), ranks)) {
      const Plan plan = make_plan(algorithm(), request);
      for (bool in_place : {false, true}) {
        const Status status = check_plan(plan, in_place);
        ASSERT_TRUE(status.is_ok()) << describe(algorithm(), request) << "\n" << status.to_string();
      }
    }
  }
}

TEST_P(AlgorithmTest, UnevenPartsAreProved) {
  for (Collective collective : {Collective::all_gather, Collective::reduce_scatter, Collective::gather,
                                Collective::scatter, Collective::all_to_all}) {
    for (int ranks : {2, 3, 4, 5, 8, 13, 16}) {
      for (std::int64_t scale : {0, 1, 30}) {
        for (bool wide : {false, true}) {
          std::vector<Request> requests = uneven_requests(collective, ranks, scale);
          for (Request& request : requests) request.wide = wide && reduces(collective);
          if (!algorithm().supports(requests[0])) continue;
          Plan plan{requests[0], {}};
          for (int rank = 0; rank < ranks; ++rank) {
            plan.programs.push_back(algorithm().program(requests[static_cast<std::size_t>(rank)], rank));
          }
          for (bool in_place : {false, true}) {
            const Status status = check_plan(plan, in_place);
            ASSERT_TRUE(status.is_ok()) << describe(algorithm(), requests[0]) << "\n"
                                        << status.to_string() << "\n"
                                        << print_program(plan.programs[0]);
          }
        }
      }
    }
  }
}

// Changes one thing that matters. Returns what, or "" when the draw changed nothing.
std::string mutate(Program& program, PhiloxKey key, std::uint64_t ordinal) {
  Op& op = program.ops[philox_below(key, ordinal, 0, program.ops.size())];
  switch (philox_below(key, ordinal, 1, 7)) {
    case 0:
      if (!has_peer(op)) return "";
      op.peer.base = (op.peer.base + 1) % 64;
      return "peer";
    case 1:
      if (op.a.buffer == Buffer::none || op.a.buffer == Buffer::scratch) return "";
      op.a.chunk.base += 1;
      return "source chunk";
    case 2:
      if (op.target.buffer != Buffer::output) return "";
      op.target.chunk.base += 1;
      return "target chunk";
    case 3:
      op.finish = !op.finish;
      return op.kind == OpKind::send ? "" : "finish";
    case 5:
      if (op.span == 1) return "";
      --op.span;
      return "span";
    case 4: {
      Round& round = program.rounds[philox_below(key, ordinal, 2, program.rounds.size())];
      if (round.op_count == 0) return "";
      --round.op_count;
      return "dropped operation";
    }
    default: {
      Loop& loop = program.loops[philox_below(key, ordinal, 3, program.loops.size())];
      if (loop.iterations <= 0) return "";
      --loop.iterations;
      return "iterations";
    }
  }
}

// Some draws hit what a rank never executes (a loop of no iterations) or a barrier's
// operands, which carry nothing; all others must be refused.
TEST_P(AlgorithmTest, MutationsAreCaught) {
  const PhiloxKey key = make_philox_key(7, 1, 0);
  int mutated = 0;
  for (std::uint64_t ordinal = 0; ordinal < 400; ++ordinal) {
    const int ranks = 3 + static_cast<int>(ordinal % 6);
    const auto requests = requests_for(algorithm(), ranks);
    if (requests.empty()) continue;  // No hosts of equally many ranks.
    const Request& request = requests[philox_below(key, ordinal, 10, requests.size())];
    if (request.count < ranks && request.collective != Collective::barrier) continue;
    Plan plan = make_plan(algorithm(), request);
    Program& program = plan.programs[philox_below(key, ordinal, 11, static_cast<std::uint64_t>(ranks))];
    std::erase_if(program.loops, [](const Loop& loop) { return loop.iterations <= 0; });
    std::vector<bool> executed(program.ops.size());
    for (const Loop& loop : program.loops) {
      for (std::uint32_t r = 0; r < loop.round_count; ++r) {
        const Round& round = program.rounds[loop.first_round + r];
        for (std::uint32_t o = 0; o < round.op_count; ++o) executed[round.first_op + o] = true;
      }
    }
    if (std::find(executed.begin(), executed.end(), false) != executed.end()) continue;
    const std::string what = mutate(program, key, ordinal);
    if (what.empty() || (what == "finish" && request.collective == Collective::barrier)) continue;
    ++mutated;
    EXPECT_FALSE(check_plan(plan, false).is_ok()) << describe(algorithm(), request) << ": " << what << " of rank "
                                                  << program.rank << ", ordinal " << ordinal << "\n"
                                                  << print_program(program);
  }
  EXPECT_GT(mutated, 20);
}

// Whether the cost is only a bound.
bool is_bound(const Algorithm& algorithm, const Request& request) {
  const int ranks = request.ranks;
  const bool folds = algorithm.name.starts_with("recursive") && (ranks & (ranks - 1)) != 0;
  return folds || algorithm.name.starts_with("binomial") || algorithm.name == "double_binary_tree" ||
         (algorithm.name == "hierarchical" && is_rooted(request.collective));
}

TEST_P(AlgorithmTest, CostIsTheSimulatedTime) {
  const Network network{2e-6, 3e-10, 1e-10};
  for (int ranks : {2, 3, 4, 5, 8, 13, 16}) {
    for (const Request& request : requests_for(algorithm(), ranks)) {
      if (request.count % ranks != 0 && request.collective == Collective::all_reduce) continue;
      const double simulated = simulate(make_plan(algorithm(), request), network).seconds;
      const double cost = algorithm().cost(request, network);
      if (is_bound(algorithm(), request)) {
        EXPECT_GE(cost, simulated * 0.999) << describe(algorithm(), request);  // Its cost is a bound.
        EXPECT_LE(cost, simulated * 5) << describe(algorithm(), request);
      } else {
        EXPECT_NEAR(cost / simulated, 1, 0.01) << describe(algorithm(), request);
      }
    }
  }
}

// Programs of ring, pairwise and trees do not grow with the number of ranks.
TEST(Algorithms, ProgramsStaySmall) {
  for (const Algorithm* algorithm : {&kRing, &kPairwise}) {
    const Request request{Collective::all_reduce, 100'000, 0, 1 << 20, 4, false};
    EXPECT_LE(algorithm->program(request, 99'999).ops.size(), 10u) << algorithm->name;
  }
}

TEST(Algorithms, EveryCollectiveHasOne) {
  for (int collective = 0; collective < kCollectiveCount; ++collective) {
    bool found = false;
    for (const Algorithm& algorithm : algorithms()) {
      found |= algorithm.supports({static_cast<Collective>(collective), 1000, 0, 0, 4, false});
    }
    EXPECT_TRUE(found) << to_string(static_cast<Collective>(collective));
  }
}

INSTANTIATE_TEST_SUITE_P(All, AlgorithmTest,
                         testing::Values("exchange", "slices", "direct", "recursive_doubling", "recursive_halving",
                                         "pairwise", "ring", "binomial_tree", "dissemination", "bruck",
                                         "binomial_parts", "pat", "double_binary_tree", "hierarchical"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace trireme::plan
