// The whole model, forward and backward, against an independent double-precision model
// and its finite differences; and the two ways of running backward against each other.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include <trireme/base/philox.h>
#include <trireme/parallel/layers.h>
#include <trireme/parallel/model.h>

#include "tests/parallel/reference_gpt.h"

namespace trireme {
namespace {

// Adds all gradients up in one flat array and counts the contributions.
class PlainSink final : public GradientSink {
 public:
  explicit PlainSink(const ParameterLayout& layout)
      : layout_(layout),
        flat(layout.flat_elements(), 0.0f),
        contributions(static_cast<std::size_t>(layout.count()), 0) {}
  float* gradient(int id) override { return flat.data() + layout_.offset(id); }
  void complete(int id) override { ++contributions[static_cast<std::size_t>(id)]; }

 private:
  const ParameterLayout& layout_;

 public:
  std::vector<float> flat;
  std::vector<int> contributions;
};

struct Setup {
  GptConfig config;
  std::int64_t sequences = 3;
  int threads = 1;
};

// A model with parameters far from their small initial values, so that every path of the
// gradient matters, and a batch with one ignored target.
class Harness {
 public:
  explicit Harness(const Setup& setup)
      : setup_(setup), pool_(setup.threads), model_(std::move(make_gpt(setup.config).value())) {
    const ParameterLayout& layout = model_->layout();
    parameters.assign(layout.flat_elements(), 0.0f);
    layout.initialize(parameters.data(), 7);
    const PhiloxKey key = make_philox_key(3, 99, 0);
    for (int id = 0; id < layout.count(); ++id) {
      for (std::size_t i = 0; i < layout.elements(id); ++i) {
        parameters[layout.offset(id) + i] += 0.3f * philox_normal(key, static_cast<std::uint64_t>(id), i);
      }
    }
    const std::int64_t count = setup.sequences * setup.config.tokens;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto element = static_cast<std::uint64_t>(i);
      const auto vocabulary = static_cast<std::uint64_t>(setup.config.vocabulary);
      tokens.push_back(static_cast<std::int32_t>(philox_below(key, 1000, element, vocabulary)));
      targets.push_back(static_cast<std::int32_t>(philox_below(key, 1001, element, vocabulary)));
    }
    targets[1] = kIgnoredTarget;
    context_.pool = &pool_;
  }

  Tensor batch(std::vector<std::int32_t>& ids) const {
    return {ids.data(), DataType::i32, {setup_.sequences, setup_.config.tokens}};
  }
  double forward_backward(PlainSink& sink, float scale = 1.0f) {
    Saved saved = Saved::create(model_->slots(), model_->plan_memory(setup_.sequences, setup_.config.tokens)).value();
    const double loss = model_->forward_backward(context_, model_->layout().views(parameters.data()), batch(tokens),
                                                 batch(targets), scale, saved, sink);
    EXPECT_TRUE(context_.error.is_ok()) << context_.error.to_string();
    return loss;
  }
  double reference_loss(const std::vector<double>& values) {
    return test::ReferenceGpt(setup_.config, model_->layout())
        .loss_sum(values, tokens, targets, setup_.sequences, setup_.config.tokens);
  }
  const Model& model() const { return *model_; }
  Context& context() { return context_; }

  std::vector<float> parameters;
  std::vector<std::int32_t> tokens, targets;

 private:
  Setup setup_;
  ThreadPool pool_;
  std::unique_ptr<Model> model_;
  Context context_;
};

GptConfig small(bool tied) {
  return {2, 8, 2, 5, 11, tied};
}

// Central differences of the double-precision model at a few elements of every parameter.
void expect_gradients_match(Harness& harness) {
  const ParameterLayout& layout = harness.model().layout();
  PlainSink sink(layout);
  const double loss = harness.forward_backward(sink);
  std::vector<double> values(harness.parameters.begin(), harness.parameters.end());
  EXPECT_NEAR(loss, harness.reference_loss(values), 1e-5 * std::abs(loss));
  constexpr double kStep = 1e-5;
  for (int id = 0; id < layout.count(); ++id) {
    const std::size_t elements = layout.elements(id);
    for (std::size_t sample = 0; sample < 8; ++sample) {
      const std::size_t i = layout.offset(id) + (sample * 7919 + 3) % elements;
      const double kept = values[i];
      values[i] = kept + kStep;
      const double above = harness.reference_loss(values);
      values[i] = kept - kStep;
      const double below = harness.reference_loss(values);
      values[i] = kept;
      const double expected = (above - below) / (2 * kStep);
      EXPECT_NEAR(sink.flat[i], expected, 2e-4 * std::max(1.0, std::abs(expected)))
          << layout.spec(id).name << " element " << i - layout.offset(id);
    }
  }
}

TEST(Model, GradientsMatchFiniteDifferencesTied) {
  Harness harness({small(true), 3, 1});
  expect_gradients_match(harness);
}

TEST(Model, GradientsMatchFiniteDifferencesUntiedTwoThreads) {
  Harness harness({small(false), 2, 2});
  expect_gradients_match(harness);
}

TEST(Model, GradientsMatchFiniteDifferencesOddSizes) {
  Harness harness({{1, 9, 3, 7, 5, true}, 1, 1});
  expect_gradients_match(harness);
}

TEST(Model, EveryUserContributesOnce) {
  for (const bool tied : {true, false}) {
    Harness harness({small(tied), 2, 1});
    PlainSink sink(harness.model().layout());
    harness.forward_backward(sink);
    for (int id = 0; id < harness.model().layout().count(); ++id) {
      EXPECT_EQ(sink.contributions[static_cast<std::size_t>(id)], harness.model().layout().spec(id).users)
          << harness.model().layout().spec(id).name;
    }
  }
}

TEST(Model, IgnoredTargetsAndScale) {
  Harness harness({small(true), 2, 1});
  PlainSink whole(harness.model().layout()), scaled(harness.model().layout()), none(harness.model().layout());
  const double loss = harness.forward_backward(whole, 1.0f);
  EXPECT_EQ(loss, harness.forward_backward(scaled, 0.25f));  // The loss itself is not scaled.
  for (std::size_t i = 0; i < whole.flat.size(); ++i) {
    EXPECT_NEAR(scaled.flat[i], 0.25f * whole.flat[i], 1e-5f * (1 + std::abs(whole.flat[i])));
  }
  std::fill(harness.targets.begin(), harness.targets.end(), kIgnoredTarget);
  EXPECT_EQ(0.0, harness.forward_backward(none));
  for (float gradient : none.flat) EXPECT_EQ(0.0f, gradient);
}

// A pipeline calls the halves apart; the bits must be those of the combined form.
TEST(Model, HalvesOfBackwardEqualTheWhole) {
  Harness harness({small(true), 2, 1});
  const Model& model = harness.model();
  const std::vector<Tensor> views = model.layout().views(harness.parameters.data());
  Saved::Sizes room;
  room.bytes.fill(4 << 20);
  Saved saved = Saved::create(model.slots(), room).value();
  const Tensor tokens = harness.batch(harness.tokens);
  PlainSink whole(model.layout()), halves(model.layout());
  for (PlainSink* sink : {&whole, &halves}) {
    const Tensor h =
        saved.allocate(harness.context(), Lifetime::backward_weight, model.body().output_shape(tokens.shape));
    const Tensor dh = saved.allocate(harness.context(), Lifetime::backward_weight, h.shape);
    model.body().forward(harness.context(), views, tokens, h, saved);
    for (std::int64_t i = 0; i < dh.elements(); ++i) dh.as<float>()[i] = 0.01f * static_cast<float>(i % 17 - 8);
    if (sink == &whole) {
      model.body().backward(harness.context(), views, dh, Tensor{}, saved, *sink);
    } else {
      model.body().backward_input(harness.context(), views, dh, Tensor{}, saved);
      model.body().backward_weight(harness.context(), saved, *sink);
    }
    saved.release_all();
  }
  ASSERT_TRUE(harness.context().error.is_ok());
  EXPECT_EQ(0, std::memcmp(whole.flat.data(), halves.flat.data(), whole.flat.size() * sizeof(float)));
  const std::vector<float> zeros(whole.flat.size(), 0.0f);
  EXPECT_NE(zeros, whole.flat);
}

TEST(Model, DryPlanIsExact) {
  Harness harness({small(true), 3, 1});
  const Saved::Sizes plan = harness.model().plan_memory(3, harness.model().layout().spec(1).shape[0]);
  Saved saved = Saved::create(harness.model().slots(), plan).value();
  PlainSink sink(harness.model().layout());
  harness.model().forward_backward(harness.context(), harness.model().layout().views(harness.parameters.data()),
                                   harness.batch(harness.tokens), harness.batch(harness.targets), 1.0f, saved, sink);
  ASSERT_TRUE(harness.context().error.is_ok()) << harness.context().error.to_string();
  EXPECT_EQ(plan.bytes, saved.high_water().bytes);
}

TEST(Model, TooLittleMemoryIsAnErrorNotACrash) {
  for (int stack = 0; stack < kLifetimeCount; ++stack) {
    Harness harness({small(true), 3, 1});
    Saved::Sizes plan = harness.model().plan_memory(3, 5);
    plan.bytes[static_cast<std::size_t>(stack)] /= 2;
    Saved saved = Saved::create(harness.model().slots(), plan).value();
    PlainSink sink(harness.model().layout());
    harness.model().forward_backward(harness.context(), harness.model().layout().views(harness.parameters.data()),
                                     harness.batch(harness.tokens), harness.batch(harness.targets), 1.0f, saved, sink);
    EXPECT_EQ(StatusCode::resource_exhausted, harness.context().error.code()) << "stack " << stack;
  }
}

TEST(Model, NextTokenLogitsAgreeWithTheLoss) {
  Harness harness({small(true), 1, 1});
  const Model& model = harness.model();
  const std::vector<Tensor> views = model.layout().views(harness.parameters.data());
  Saved saved = Saved::create(model.slots(), model.plan_memory(1, 5)).value();
  double expected = 0;
  for (std::int64_t n = 1; n <= 5; ++n) {
    std::vector<float> logits(11);
    const Tensor prefix{harness.tokens.data(), DataType::i32, {1, n}};
    model.next_token_logits(harness.context(), views, prefix, logits.data(), saved);
    const std::int32_t target = harness.targets[static_cast<std::size_t>(n - 1)];
    if (target == kIgnoredTarget) continue;
    double total = 0;
    for (float logit : logits) total += std::exp(static_cast<double>(logit));
    expected += std::log(total) - logits[static_cast<std::size_t>(target)];
  }
  const double loss =
      model.evaluate(harness.context(), views, harness.batch(harness.tokens), harness.batch(harness.targets), saved);
  EXPECT_NEAR(expected, loss, 1e-5 * loss);
}

TEST(GptConfig, RefusesWhatCannotBeBuilt) {
  GptConfig config;
  config.width = 100;
  config.heads = 3;
  const Status status = make_gpt(config).status();
  EXPECT_EQ(StatusCode::invalid_argument, status.code());
  EXPECT_NE(std::string::npos, status.message().find("3 heads do not divide dim 100")) << status.message();
  config.heads = 0;
  EXPECT_EQ(StatusCode::invalid_argument, config.check().code());
  config.heads = 4;
  config.layers = -1;
  EXPECT_EQ(StatusCode::invalid_argument, config.check().code());
}

}  // namespace
}  // namespace trireme
