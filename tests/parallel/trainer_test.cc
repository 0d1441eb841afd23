// Training steps by data parallelism, ranks being threads: the same losses for any number
// of ranks and microbatches, the same bits for the same layout, and agreement on what to skip.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include <trireme/base/partition.h>
#include <trireme/base/philox.h>
#include <trireme/parallel/byte_corpus.h>
#include <trireme/parallel/training_step.h>

#include "tests/parallel/local_ranks.h"

namespace trireme {
namespace {

constexpr std::int64_t kTokens = 16;
constexpr std::int64_t kBatch = 12;

const ByteCorpus& corpus() {
  static const ByteCorpus made = [] {
    std::string text;
    for (int i = 0; i < 600; ++i) text += "in the beginning was verse " + std::to_string(i * 7 % 100) + ", ";
    return ByteCorpus::from_text(text, kTokens).value();
  }();
  return made;
}

struct Layout {
  int ranks = 1;
  std::int64_t microbatch = kBatch;
  std::size_t bucket_bytes = 4096;
  DataType product_type = DataType::f32;
};

// One rank: a trainer and its share of the data.
class Rank {
 public:
  Rank(const Layout& layout, int rank, Communicator* communicator)
      : share_(balanced_part(kBatch, rank, layout.ranks)), pool_(1) {
    TrainerOptions options;
    options.tokens_per_sequence = kTokens;
    options.microbatch = layout.microbatch;
    options.bucket_bytes = layout.bucket_bytes;
    options.product_type = layout.product_type;
    options.skips_in_a_row_max = 3;
    const Mesh mesh = Mesh::create({}, rank, layout.ranks).value();
    trainer =
        Trainer::create(make_gpt({2, 16, 2, kTokens, 256, true}).value(), options, mesh, communicator, pool_).value();
    tokens_.resize(static_cast<std::size_t>(share_.size() * kTokens + 1));
    targets_.resize(tokens_.size());
  }
  Result<StepReport> step(double learning_rate = 3e-3) {
    const std::uint64_t first = trainer->counters().sample_ordinal + static_cast<std::uint64_t>(share_.begin);
    for (std::int64_t i = 0; i < share_.size(); ++i) {
      corpus().training_sequence(1, first + static_cast<std::uint64_t>(i), tokens_.data() + i * kTokens,
                                 targets_.data() + i * kTokens);
    }
    trainer->counters().sample_ordinal += kBatch;
    return trainer->step({tokens_.data(), targets_.data(), share_.size(), first, kBatch * kTokens}, learning_rate);
  }
  std::vector<float> state() {
    std::vector<float> all;
    const std::size_t count = trainer->model().layout().flat_elements();
    for (const float* array : {trainer->parameters(), trainer->first_moment(), trainer->second_moment()}) {
      all.insert(all.end(), array, array + count);
    }
    return all;
  }
  std::unique_ptr<Trainer> trainer;

 private:
  Range share_;
  ThreadPool pool_;
  std::vector<std::int32_t> tokens_, targets_;
};

struct History {
  std::vector<double> losses, norms;
  std::vector<float> state;
  bool operator==(const History&) const = default;
};

// Trains and checks that all ranks tell the same story.
History train(const Layout& layout, int steps) {
  std::vector<History> histories(static_cast<std::size_t>(layout.ranks));
  test::run_ranks(layout.ranks, [&](int rank, Communicator* communicator) {
    Rank self(layout, rank, communicator);
    History& history = histories[static_cast<std::size_t>(rank)];
    for (int i = 0; i < steps; ++i) {
      const Result<StepReport> report = self.step();
      ASSERT_TRUE(report.is_ok()) << report.status().to_string();
      history.losses.push_back(report->loss);
      history.norms.push_back(report->gradient_norm);
    }
    history.state = self.state();
  });
  for (const History& history : histories) EXPECT_EQ(histories.front(), history);
  return histories.front();
}

void expect_close(const History& expected, const History& actual) {
  ASSERT_EQ(expected.losses.size(), actual.losses.size());
  EXPECT_NEAR(expected.losses.front(), actual.losses.front(), 1e-6 * expected.losses.front());
  EXPECT_NEAR(expected.norms.front(), actual.norms.front(), 1e-5 * expected.norms.front());
  for (std::size_t i = 0; i < expected.losses.size(); ++i) {
    EXPECT_NEAR(expected.losses[i], actual.losses[i], 1e-4) << "step " << i + 1;
  }
}

TEST(Trainer, LossFallsAndNumbersOfRanksAgree) {
  const History one = train({1}, 60);
  EXPECT_LT(one.losses.back(), 0.7 * one.losses.front());
  for (int ranks : {2, 3, 4, 5}) {
    SCOPED_TRACE(ranks);
    expect_close(one, train({ranks, 2}, 60));
  }
}

TEST(Trainer, MicrobatchesAndBucketsDoNotMatter) {
  const History one = train({1}, 20);
  for (std::int64_t microbatch : {1, 5, 11}) expect_close(one, train({1, microbatch}, 20));
  expect_close(one, train({2, 2, 1}, 20));
  expect_close(one, train({2, 6, 1 << 30}, 20));
}

TEST(Trainer, SameLayoutSameBits) {
  EXPECT_EQ(train({1, 3}, 15), train({1, 3}, 15));
  EXPECT_EQ(train({3, 2}, 15), train({3, 2}, 15));
}

TEST(Trainer, MoreRanksThanSequences) {
  const Layout layout{14, 1};
  expect_close(train({1}, 3), train(layout, 3));
}

TEST(Trainer, Bf16ProductsFollowF32) {
  const History f32 = train({1}, 30);
  const History bf16 = train({1, kBatch, 4096, DataType::bf16}, 30);
  EXPECT_NE(f32.losses, bf16.losses);
  for (std::size_t i = 0; i < f32.losses.size(); ++i) EXPECT_NEAR(f32.losses[i], bf16.losses[i], 0.05);
}

TEST(Trainer, GradientThatIsNotFiniteOnOneRankIsSkippedOnAll) {
  for (const float poison : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    test::run_ranks(3, [&](int rank, Communicator* communicator) {
      Rank self({3, 2}, rank, communicator);
      ASSERT_TRUE(self.step().is_ok());
      const std::vector<float> before = self.state();
      // The last norm's weight of rank 1 only: its gradients and loss become useless.
      float& victim = self.trainer->parameters()[self.trainer->model().layout().flat_elements() - 32];
      const float kept = victim;
      if (rank == 1) victim = poison;
      const Result<StepReport> poisoned = self.step();
      victim = kept;
      ASSERT_TRUE(poisoned.is_ok()) << poisoned.status().to_string();
      EXPECT_TRUE(poisoned->skipped);
      EXPECT_EQ(1, self.trainer->counters().skipped);
      EXPECT_EQ(1, self.trainer->counters().updates);
      EXPECT_EQ(2, self.trainer->counters().step);
      const std::vector<float> after = self.state();
      EXPECT_EQ(0, std::memcmp(before.data(), after.data(), before.size() * sizeof(float)));
      const Result<StepReport> healthy = self.step();
      ASSERT_TRUE(healthy.is_ok());
      EXPECT_FALSE(healthy->skipped);
      EXPECT_EQ(0, self.trainer->counters().skipped_in_a_row);
    });
  }
}

TEST(Trainer, TooManySkippedStepsStopTheRunAndNameTheCulprit) {
  Rank self({1}, 0, nullptr);
  self.trainer->parameters()[0] = std::numeric_limits<float>::infinity();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(self.step().is_ok());
  const Status status = self.step().status();
  EXPECT_EQ(StatusCode::aborted, status.code());
  EXPECT_NE(std::string::npos, status.message().find("gradient of")) << status.message();
  EXPECT_NE(std::string::npos, status.message().find("learning rate")) << status.message();
}

// Clipping: a step with a clipped gradient moves like one with the gradient scaled to the norm.
TEST(Trainer, ClipsToTheGlobalNorm) {
  ThreadPool pool(1);
  std::vector<std::int32_t> tokens(kTokens * 2, 'a'), targets(kTokens * 2, 'b');
  std::vector<std::vector<float>> moments;
  std::vector<double> norms;
  for (const double clip : {0.0, 0.01}) {
    TrainerOptions options;
    options.tokens_per_sequence = kTokens;
    options.microbatch = 2;
    options.clip_norm = clip;
    auto trainer =
        Trainer::create(make_gpt({1, 16, 2, kTokens, 256, true}).value(), options, Mesh(), nullptr, pool).value();
    norms.push_back(trainer->step({tokens.data(), targets.data(), 2, 0, 2 * kTokens}, 1e-3)->gradient_norm);
    moments.emplace_back(trainer->first_moment(), trainer->first_moment() + trainer->model().layout().flat_elements());
  }
  ASSERT_EQ(norms[0], norms[1]);  // Reported before clipping.
  ASSERT_GT(norms[0], 0.01);
  for (std::size_t i = 0; i < moments[0].size(); ++i) {
    EXPECT_NEAR(moments[0][i] * 0.01 / norms[0], moments[1][i], 1e-8);
  }
}

TEST(Trainer, DecayActsOnMatricesOnly) {
  Rank self({1}, 0, nullptr);
  Trainer& trainer = *self.trainer;
  const ParameterLayout& layout = trainer.model().layout();
  std::vector<float> before(trainer.parameters(), trainer.parameters() + layout.flat_elements());
  // With moments that cancel the gradient's part (learning rate as is, no gradient): targets ignored.
  std::vector<std::int32_t> tokens(kTokens, 'a'), targets(kTokens, kIgnoredTarget);
  ASSERT_TRUE(trainer.step({tokens.data(), targets.data(), 1, 0, kTokens}, 0.5).is_ok());
  for (int id = 0; id < layout.count(); ++id) {
    const std::size_t i = layout.offset(id);
    const float factor = layout.spec(id).decay ? 1.0f - 0.5f * 0.1f : 1.0f;
    EXPECT_NEAR(before[i] * factor, trainer.parameters()[i], 1e-7) << layout.spec(id).name;
  }
}

TEST(Trainer, RefusesImpossibleOptions) {
  ThreadPool pool(1);
  TrainerOptions options;
  options.microbatch = 0;
  EXPECT_EQ(StatusCode::invalid_argument,
            Trainer::create(make_gpt({}).value(), options, Mesh(), nullptr, pool).status().code());
  options.microbatch = 1;
  options.product_type = DataType::f16;
  EXPECT_EQ(StatusCode::invalid_argument,
            Trainer::create(make_gpt({}).value(), options, Mesh(), nullptr, pool).status().code());
  EXPECT_EQ(StatusCode::invalid_argument,
            Trainer::create(make_gpt({}).value(), {}, Mesh::create({}, 0, 2).value(), nullptr, pool).status().code());
}

}  // namespace
}  // namespace trireme
