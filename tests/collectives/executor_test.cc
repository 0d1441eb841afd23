// The executor against the reference: every algorithm, type, operation, count and channel
// size, all ranks in one thread, so that a failure repeats exactly.
#include "collectives/execute/executor.h"

#include <gtest/gtest.h>
#include <trireme/base/float_types.h>
#include <trireme/base/philox.h>

#include <cmath>

#include "tests/collectives/plan_ranks.h"

namespace trireme {
namespace {

using plan::Collective;

using Case = test::PlanCase;
using Ranks = test::PlanRanks;
using test::fill;
using test::Links;

// The parts of all ranks, each with elements from `first` on of its rank's input.
std::string compare_parts(const Case& c, const std::byte* got, std::size_t first) {
  std::string difference;
  for (int from = 0; from < c.ranks && difference.empty(); ++from) {
    const std::byte* part = got + static_cast<std::size_t>(from) * c.count * size_of(c.type);
    difference = test::compare_copied(c.type, c.op, from, part, c.count, first);
  }
  return difference;
}

std::string compare(Ranks& run, const Case& c) {
  for (int rank = 0; rank < c.ranks; ++rank) {
    const std::byte* got = run.output_of(static_cast<std::size_t>(rank));
    std::string difference;
    switch (c.collective) {
      case Collective::all_reduce:
        difference = test::compare_reduced(c.type, c.op, c.ranks, got, c.count);
        break;
      case Collective::reduce:
        if (rank == c.root) difference = test::compare_reduced(c.type, c.op, c.ranks, got, c.count);
        break;
      case Collective::reduce_scatter:
        difference =
            test::compare_reduced(c.type, c.op, c.ranks, got, c.count, static_cast<std::size_t>(rank) * c.count);
        break;
      case Collective::broadcast:
        difference = test::compare_copied(c.type, c.op, c.root, got, c.count);
        break;
      case Collective::all_gather:
        difference = compare_parts(c, got, 0);
        break;
      case Collective::gather:
        if (rank == c.root) difference = compare_parts(c, got, 0);
        break;
      case Collective::scatter:
        difference = test::compare_copied(c.type, c.op, c.root, got, c.count, static_cast<std::size_t>(rank) * c.count);
        break;
      case Collective::all_to_all:
        difference = compare_parts(c, got, static_cast<std::size_t>(rank) * c.count);
        break;
      case Collective::barrier:
        break;
    }
    if (!difference.empty()) return "rank " + std::to_string(rank) + ": " + difference;
  }
  return "";
}

void check(const Case& c) {
  Ranks run(c);
  if (!c.algorithm->supports(run.request())) return;             // Too large to be posted.
  for (std::uint64_t sequence = 1; sequence <= 2; ++sequence) {  // Twice: channels are left as they should be.
    fill(run, c);
    ASSERT_TRUE(run.execute(sequence)) << c.describe();
    ASSERT_EQ(compare(run, c), "") << c.describe();
  }
}

std::vector<Case> cases_of(Collective collective) {
  std::vector<Case> cases;
  for (const plan::Algorithm& algorithm : plan::algorithms()) {
    plan::Request request{collective, 3, 0, 0, 1, false};
    request.shared_memory = request.windows = true;
    if (algorithm.supports(request)) cases.push_back({&algorithm, collective});
  }
  return cases;
}

class Execute : public testing::TestWithParam<Collective> {};

// Each draw is one point of the space algorithm x type x operation x ranks x count x root
// x place x channel; `draws` of them.
void check_draws(Collective collective, std::uint64_t seed, std::uint64_t draws) {
  const PhiloxKey key = make_philox_key(seed, 3, static_cast<std::uint32_t>(collective));
  const std::vector<Case> templates = cases_of(collective);
  constexpr std::size_t kCounts[] = {0, 1, 2, 3, 5, 8, 17, 64, 100, 333, 1000};
  constexpr std::size_t kGlimpses[] = {1, 3, 31, 32, 100, 4096};
  for (std::uint64_t draw = 0; draw < draws; ++draw) {
    const auto pick = [&](std::uint64_t what, std::uint64_t bound) { return philox_below(key, draw, what, bound); };
    Case c = templates[pick(0, templates.size())];
    c.type = static_cast<DataType>(draw % kDataTypeCount);
    c.op = static_cast<ReduceOp>((draw / kDataTypeCount) % kReduceOpCount);
    c.ranks = 2 + static_cast<int>(pick(1, 8));
    c.count = collective == Collective::barrier ? 0 : kCounts[pick(2, std::size(kCounts))];
    c.root = plan::is_rooted(collective) ? static_cast<int>(pick(3, static_cast<std::uint64_t>(c.ranks))) : 0;
    c.in_place = pick(4, 2) == 1 && collective != Collective::barrier && collective != Collective::all_to_all;
    c.capacity = std::size_t{64} << pick(5, 8);
    c.glimpse = kGlimpses[pick(6, std::size(kGlimpses))];
    ASSERT_NO_FATAL_FAILURE(check(c));
  }
}

TEST_P(Execute, MatchesTheReference) {
  check_draws(GetParam(), 1, 650);
}
TEST_P(Execute, MatchesTheReferenceLong) {
  check_draws(GetParam(), 2, 60'000);
}

INSTANTIATE_TEST_SUITE_P(All, Execute,
                         testing::Values(Collective::all_reduce, Collective::reduce, Collective::broadcast,
                                         Collective::all_gather, Collective::reduce_scatter, Collective::barrier,
                                         Collective::gather, Collective::scatter, Collective::all_to_all),
                         [](const auto& test) { return std::string(plan::to_string(test.param)); });

TEST(Executor, PipelinedTreesWithManyChunks) {
  for (Collective collective : {Collective::broadcast, Collective::reduce}) {
    for (int ranks : {2, 3, 5, 8}) {
      Case c{&plan::kBinomialTree, collective};
      c.type = DataType::bf16;
      c.ranks = ranks;
      c.count = 300'001;
      c.root = ranks - 1;
      c.capacity = c.glimpse = 65536;
      ASSERT_NO_FATAL_FAILURE(check(c));
    }
  }
}

// Sums of low-precision types are within one unit in the last place of the exact sum,
// and all ranks have the same bits, whatever the algorithm.
TEST(Executor, LowPrecisionSumsRoundOnce) {
  const PhiloxKey key = make_philox_key(5, 5, 0);
  for (const Case& algorithm : cases_of(Collective::all_reduce)) {
    for (int ranks = 2; ranks <= 16; ++ranks) {
      Case c = algorithm;
      c.type = DataType::bf16;
      c.ranks = ranks;
      c.count = 257;
      Ranks run(c);
      fill(run, c);
      std::vector<double> exact(c.count);
      for (int rank = 0; rank < ranks; ++rank) {
        std::byte* data = run.inputs[static_cast<std::size_t>(rank)].data();
        for (std::size_t i = 0; i < c.count; ++i) {
          test::store(c.type, data, i, philox_uniform(key, static_cast<std::uint64_t>(rank), i) - 0.3);
          exact[i] += test::load(c.type, data, i);
        }
      }
      ASSERT_TRUE(run.execute(1));
      for (std::size_t i = 0; i < c.count; ++i) {
        const double got = test::load(c.type, run.outputs[0].data(), i);
        const double ulp = std::ldexp(1.0, std::max(std::ilogb(exact[i]), -126) - 7);
        ASSERT_LE(std::abs(got - exact[i]), 0.502 * ulp + 1e-6) << c.describe() << " element " << i;
      }
      for (const auto& output : run.outputs) ASSERT_EQ(output, run.outputs[0]) << c.describe();
    }
  }
}

// f32 sums of arbitrary numbers depend on the order of operands: all ranks must use one.
TEST(Executor, AllRanksGetTheSameBits) {
  const PhiloxKey key = make_philox_key(6, 5, 0);
  for (const Case& algorithm : cases_of(Collective::all_reduce)) {
    for (int ranks = 2; ranks <= 9; ++ranks) {
      Case c = algorithm;
      c.ranks = ranks;
      c.count = 501;
      Ranks run(c);
      fill(run, c);
      for (int rank = 0; rank < ranks; ++rank) {
        for (std::size_t i = 0; i < c.count; ++i) {
          test::store(c.type, run.inputs[static_cast<std::size_t>(rank)].data(), i,
                      philox_normal(key, static_cast<std::uint64_t>(rank), i));
        }
      }
      ASSERT_TRUE(run.execute(1));
      for (const auto& output : run.outputs) ASSERT_EQ(output, run.outputs[0]) << c.describe();
    }
  }
}

TEST(Executor, ADifferentCallIsNoticed) {
  auto [left, right] = test::memory_channels(4096, 4096);
  Links links[2];
  links[0].links[1] = std::make_unique<Link>(std::move(left));
  links[1].links[0] = std::make_unique<Link>(std::move(right));
  CompiledPlan plans[2];
  Call calls[2];
  for (int rank = 0; rank < 2; ++rank) {
    plans[rank].program = plan::kDissemination.program({Collective::barrier, 2, 0, 0, 1, false}, rank);
    calls[rank].sequence = 4;
  }
  calls[1].count = 3;
  Executor a(links[0]);
  Executor b(links[1]);
  a.start(plans[0], calls[0], nullptr, nullptr);
  b.start(plans[1], calls[1], nullptr, nullptr);
  for (int i = 0; i < 3; ++i) {
    a.sweep();
    b.sweep();
  }
  ASSERT_TRUE(a.mismatch() && a.mismatch()->theirs);
  EXPECT_EQ(a.mismatch()->peer, 1);
  EXPECT_EQ(a.mismatch()->theirs->count, 3u);
  ASSERT_TRUE(b.mismatch() && b.mismatch()->theirs);
  EXPECT_EQ(b.mismatch()->theirs->count, 0u);
}

}  // namespace
}  // namespace trireme
