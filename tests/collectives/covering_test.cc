// A covering array: every pair of (algorithm, type, operation, number of ranks, size
// around a boundary, place) meets at least once, each case compared byte by byte with the
// exact result. All combinations run under Long.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

#include <trireme/base/philox.h>

#include "tests/collectives/plan_ranks.h"

namespace trireme {
namespace {

using plan::Collective;
using test::PlanCase;
using test::PlanRanks;

// Bytes where something changes: alignment and padding of messages, a slice of the
// executor, a chunk of the trees; an element more and an element less.
constexpr std::int64_t kBoundaries[] = {0, 32, 512, 8192, 65'536, 131'072};  // The last one under Long only.
constexpr int kFactors = 6;
using Choice = std::array<int, kFactors>;  // Algorithm, type, operation, ranks - 2, size, place.

struct Space {
  Collective collective;
  std::vector<const plan::Algorithm*> algorithms;
  std::size_t boundaries = std::size(kBoundaries) - 1;
  Choice levels() const {
    return {static_cast<int>(algorithms.size()),
            kDataTypeCount,
            plan::reduces(collective) ? kReduceOpCount : 1,
            8,
            3 * static_cast<int>(boundaries),
            collective == Collective::all_to_all ? 1 : 2};
  }
};

Space space_of(Collective collective) {
  Space space{collective, {}};
  for (const plan::Algorithm& algorithm : plan::algorithms()) {
    plan::Request request{collective, 4, 0, 0, 1, false};
    request.ranks_per_host = 2;
    request.shared_memory = request.windows = true;
    if (algorithm.supports(request)) space.algorithms.push_back(&algorithm);
  }
  return space;
}

PlanCase case_of(const Space& space, const Choice& choice) {
  PlanCase c{space.algorithms[static_cast<std::size_t>(choice[0])], space.collective};
  c.type = static_cast<DataType>(choice[1]);
  c.op = static_cast<ReduceOp>(choice[2]);
  c.ranks = choice[3] + 2;
  const auto width = static_cast<std::int64_t>(size_of(c.type));
  // Of parts, all together are that large.
  const bool parts =
      plan::gathers(c.collective) || plan::scatters(c.collective) || c.collective == Collective::all_to_all;
  const std::int64_t elements = kBoundaries[choice[4] / 3] / width / (parts ? c.ranks : 1) + choice[4] % 3 - 1;
  c.count = static_cast<std::size_t>(std::max<std::int64_t>(elements, 0));
  c.in_place = choice[5] == 1;
  c.root = plan::is_rooted(c.collective) ? (choice[1] + choice[3]) % c.ranks : 0;
  c.capacity = std::size_t{4096} << (choice[1] + choice[4]) % 5;
  c.glimpse = choice[2] % 2 == 0 ? c.capacity : 1000;
  return c;
}

// What rank `rank` must get; nothing where its output is not used.
std::vector<std::byte> expected_output(const PlanCase& c, int rank) {
  const auto n = static_cast<std::size_t>(c.ranks);
  const std::size_t own = static_cast<std::size_t>(rank) * c.count;
  std::vector<std::byte> result;
  const auto append = [&](int from, std::size_t first) {
    const auto part = test::make_input(c.type, c.op, from, c.count, first);
    result.insert(result.end(), part.begin(), part.end());
  };
  switch (c.collective) {
    case Collective::reduce:
    case Collective::all_reduce:
    case Collective::reduce_scatter: {
      if (c.collective == Collective::reduce && rank != c.root) return result;
      const std::size_t first = c.collective == Collective::reduce_scatter ? own : 0;
      result.resize(c.count * size_of(c.type));
      for (std::size_t i = 0; i < c.count; ++i) {
        test::store(c.type, result.data(), i, test::reduced_value(c.type, c.op, c.ranks, first + i));
      }
      return result;
    }
    case Collective::broadcast:
      append(c.root, 0);
      return result;
    case Collective::scatter:
      append(c.root, own);
      return result;
    case Collective::gather:
      if (rank != c.root) return result;
      [[fallthrough]];
    case Collective::all_gather:
      for (std::size_t from = 0; from < n; ++from) append(static_cast<int>(from), 0);
      return result;
    case Collective::all_to_all:
      for (std::size_t from = 0; from < n; ++from) append(static_cast<int>(from), own);
      return result;
    case Collective::barrier:
      return result;
  }
  return result;
}

void check(const Space& space, const Choice& choice) {
  const PlanCase c = case_of(space, choice);
  plan::Request request{c.collective, c.ranks, c.root, static_cast<std::int64_t>(c.count),
                        static_cast<std::int64_t>(size_of(c.type))};
  request.ranks_per_host = c.ranks % 2 == 0 ? 2 : 0;
  request.shared_memory = request.windows = true;
  if (!c.algorithm->supports(request)) return;  // Halving of parts needs a power of two.
  PlanRanks run(c);
  fill(run, c);
  ASSERT_TRUE(run.execute(1)) << c.describe();
  std::vector<std::byte> expected;
  for (int rank = 0; rank < c.ranks; ++rank) {
    // All ranks get the same from an all-reduce: it is made once.
    const bool same = rank > 0 && (c.collective == Collective::all_reduce || c.collective == Collective::broadcast ||
                                   c.collective == Collective::all_gather);
    if (!same) expected = expected_output(c, rank);
    const bool right = expected.empty() || std::memcmp(run.output_of(static_cast<std::size_t>(rank)), expected.data(),
                                                       expected.size()) == 0;
    ASSERT_TRUE(right) << c.describe() << " on rank " << rank;
  }
}

using Pair = std::array<int, 4>;  // Factor, level, factor, level.

std::vector<Pair> pairs_of(const Choice& choice) {
  std::vector<Pair> pairs;
  for (int a = 0; a < kFactors; ++a) {
    for (int b = a + 1; b < kFactors; ++b) {
      pairs.push_back({a, choice[static_cast<std::size_t>(a)], b, choice[static_cast<std::size_t>(b)]});
    }
  }
  return pairs;
}

// Greedy: of some random choices that hold a pair still missing, the one with most of them.
std::vector<Choice> covering_array(const Choice& levels) {
  std::set<Pair> missing;
  for (int a = 0; a < kFactors; ++a) {
    for (int b = a + 1; b < kFactors; ++b) {
      for (int x = 0; x < levels[static_cast<std::size_t>(a)]; ++x) {
        for (int y = 0; y < levels[static_cast<std::size_t>(b)]; ++y) missing.insert({a, x, b, y});
      }
    }
  }
  const PhiloxKey key = make_philox_key(31, 1, 0);
  std::vector<Choice> rows;
  while (!missing.empty()) {
    Choice best{};
    std::size_t most = 0;
    for (std::uint64_t attempt = 0; attempt < 30; ++attempt) {
      Choice choice{};
      for (std::size_t f = 0; f < kFactors; ++f) {
        choice[f] = static_cast<int>(
            philox_below(key, rows.size(), attempt * kFactors + f, static_cast<std::uint64_t>(levels[f])));
      }
      const Pair& wanted = *missing.begin();
      choice[static_cast<std::size_t>(wanted[0])] = wanted[1];
      choice[static_cast<std::size_t>(wanted[2])] = wanted[3];
      std::size_t covers = 0;
      for (const Pair& pair : pairs_of(choice)) covers += missing.count(pair);
      if (covers <= most) continue;
      most = covers;
      best = choice;
    }
    for (const Pair& pair : pairs_of(best)) missing.erase(pair);
    rows.push_back(best);
  }
  return rows;
}

class Covering : public testing::TestWithParam<Collective> {};

TEST_P(Covering, EveryPairOfFactors) {
  const Space space = space_of(GetParam());
  const std::vector<Choice> rows = covering_array(space.levels());
  EXPECT_GE(rows.size(), 3 * space.boundaries * kDataTypeCount);  // Size and type.
  for (const Choice& row : rows) ASSERT_NO_FATAL_FAILURE(check(space, row));
}

TEST_P(Covering, EveryCombinationLong) {
  Space space = space_of(GetParam());
  space.boundaries = std::size(kBoundaries);
  const Choice levels = space.levels();
  Choice choice{};
  for (bool more = true; more;) {
    ASSERT_NO_FATAL_FAILURE(check(space, choice));
    more = false;
    for (std::size_t f = 0; f < kFactors && !more; ++f) {
      more = ++choice[f] < levels[f];
      if (!more) choice[f] = 0;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Covering,
                         testing::Values(Collective::all_reduce, Collective::reduce, Collective::broadcast,
                                         Collective::all_gather, Collective::reduce_scatter, Collective::gather,
                                         Collective::scatter, Collective::all_to_all),
                         [](const auto& test) { return std::string(plan::to_string(test.param)); });

}  // namespace
}  // namespace trireme
