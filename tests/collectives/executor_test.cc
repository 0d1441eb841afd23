// The executor against the reference: every algorithm, type, operation, count and channel
// size, all ranks in one thread, so that a failure repeats exactly.
#include "collectives/execute/executor.h"

#include <gtest/gtest.h>
#include <trireme/base/float_types.h>
#include <trireme/base/philox.h>

#include <cmath>
#include <map>

#include "collectives/algorithms/algorithm.h"
#include "tests/collectives/memory_channel.h"
#include "tests/collectives/reference.h"

namespace trireme {
namespace {

using plan::Collective;

struct Case {
  const plan::Algorithm* algorithm;
  Collective collective;
  DataType type = DataType::f32;
  ReduceOp op = ReduceOp::sum;
  int ranks = 2;
  std::size_t count = 0;
  int root = 0;
  bool in_place = false;
  std::size_t capacity = 4096;  // Of each channel.
  std::size_t glimpse = 4096;
  std::string describe() const {
    return std::string(algorithm->name) + " " + std::string(plan::to_string(collective)) + " " +
           std::string(to_string(type)) + " " + std::string(to_string(op)) + " ranks=" + std::to_string(ranks) +
           " count=" + std::to_string(count) + " root=" + std::to_string(root) + (in_place ? " in place" : "") +
           " capacity=" + std::to_string(capacity) + " glimpse=" + std::to_string(glimpse);
  }
};

class Links final : public LinkTable {
 public:
  Result<Link*> link(int peer) override { return links[peer].get(); }
  std::map<int, std::unique_ptr<Link>> links;
};

// All ranks of one call.
class Ranks {
 public:
  explicit Ranks(const Case& run) : case_(run), links_(static_cast<std::size_t>(run.ranks)) {
    for (int a = 0; a < run.ranks; ++a) {
      for (int b = a + 1; b < run.ranks; ++b) {
        auto [left, right] = test::memory_channels(run.capacity, run.glimpse);
        links_[static_cast<std::size_t>(a)].links[b] = std::make_unique<Link>(std::move(left));
        links_[static_cast<std::size_t>(b)].links[a] = std::make_unique<Link>(std::move(right));
      }
    }
    inputs.resize(links_.size());
    outputs.resize(links_.size());
  }

  plan::Request request() const {
    return {case_.collective,
            case_.ranks,
            case_.root,
            static_cast<std::int64_t>(case_.count),
            static_cast<std::int64_t>(size_of(case_.type)),
            plan::reduces(case_.collective) && is_wide_reduction(case_.type, case_.op)};
  }

  // Runs the call once; inputs and outputs are set. False when it does not end.
  bool execute(std::uint64_t sequence) {
    std::vector<CompiledPlan> plans(links_.size());
    std::vector<std::unique_ptr<Executor>> executors;
    Call call;
    call.kind = static_cast<CallKind>(case_.collective);
    call.type = case_.type;
    call.op = case_.op;
    call.root = case_.root;
    call.count = case_.count;
    call.sequence = sequence;
    for (std::size_t r = 0; r < links_.size(); ++r) {
      plans[r].program = case_.algorithm->program(request(), static_cast<int>(r));
      plans[r].arithmetic = Arithmetic(case_.type, case_.op, request().wide, case_.ranks);
      plans[r].scratch_bytes = static_cast<std::size_t>(plans[r].program.scratch_slots) *
                               static_cast<std::size_t>(plans[r].program.slot_elements) *
                               plans[r].arithmetic.bytes_of(true);
      executors.push_back(std::make_unique<Executor>(links_[r]));
      executors.back()->start(plans[r], call, input_of(r), output_of(r));
    }
    for (int idle = 0; idle < 3;) {
      bool moved = false;
      bool all = true;
      for (auto& executor : executors) {
        moved |= executor->sweep();
        all = all && executor->done();
        if (executor->mismatch()) return false;
      }
      if (all) return true;
      idle = moved ? 0 : idle + 1;
    }
    return false;
  }

  std::byte* input_of(std::size_t rank) {
    if (is_in_place(rank) && !plan::scatters(case_.collective)) {
      return outputs[rank].data() + (plan::gathers(case_.collective) ? own_offset(rank) : 0);
    }
    return inputs[rank].data();
  }
  std::byte* output_of(std::size_t rank) {
    if (is_in_place(rank) && plan::scatters(case_.collective)) return inputs[rank].data() + own_offset(rank);
    return outputs[rank].data();
  }

  std::vector<std::vector<std::byte>> inputs;
  std::vector<std::vector<std::byte>> outputs;

 private:
  std::size_t own_offset(std::size_t rank) const { return rank * case_.count * size_of(case_.type); }
  bool is_in_place(std::size_t rank) const {
    const bool one_sided = case_.collective == Collective::gather || case_.collective == Collective::scatter;
    return case_.in_place && (!one_sided || rank == static_cast<std::size_t>(case_.root));
  }
  Case case_;
  std::vector<Links> links_;
};

void fill(Ranks& run, const Case& c) {
  const auto request = run.request();
  for (int rank = 0; rank < c.ranks; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    run.inputs[r] = test::make_input(c.type, c.op, rank, static_cast<std::size_t>(plan::input_elements(request, rank)));
    run.outputs[r].assign(static_cast<std::size_t>(plan::output_elements(request, rank)) * size_of(c.type),
                          std::byte{0x5a});
    if (c.in_place && !run.inputs[r].empty()) std::memcpy(run.input_of(r), run.inputs[r].data(), run.inputs[r].size());
  }
}

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
  for (std::uint64_t sequence = 1; sequence <= 2; ++sequence) {  // Twice: channels are left as they should be.
    fill(run, c);
    ASSERT_TRUE(run.execute(sequence)) << c.describe();
    ASSERT_EQ(compare(run, c), "") << c.describe();
  }
}

std::vector<Case> cases_of(Collective collective) {
  std::vector<Case> cases;
  for (const plan::Algorithm& algorithm : plan::algorithms()) {
    if (algorithm.supports({collective, 3, 0, 0, 1, false})) cases.push_back({&algorithm, collective});
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
      Case c = cases_of(collective).front();
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
