// The small pure pieces: mesh, parameter layout, buckets, schedule, corpus.
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include <trireme/parallel/byte_corpus.h>
#include <trireme/parallel/gradient_buckets.h>
#include <trireme/parallel/learning_rate.h>
#include <trireme/parallel/mesh.h>
#include <trireme/parallel/model.h>

namespace trireme {
namespace {

TEST(Mesh, DataAxisTakesWhatIsLeft) {
  const Mesh mesh = Mesh::create({}, 2, 4).value();
  EXPECT_EQ(4, mesh.extent(Axis::data));
  EXPECT_EQ(2, mesh.coordinate(Axis::data));
  EXPECT_EQ("pipeline 1 x data 4 x context 1 x expert 1 x tensor 1 = 4 ranks", mesh.to_string());
}

TEST(Mesh, RefusesAProductThatIsNotTheRanks) {
  MeshExtents extents;
  extents.data = 3;
  const Status status = Mesh::create(extents, 0, 4).status();
  EXPECT_EQ(StatusCode::invalid_argument, status.code());
  EXPECT_NE(std::string::npos, status.message().find("data 3")) << status.message();
  EXPECT_NE(std::string::npos, status.message().find("= 3 ranks, but the job has 4")) << status.message();
  EXPECT_NE(std::string::npos, status.message().find("--dp 4")) << status.message();
}

TEST(Mesh, RefusesAxesThatNothingExecutes) {
  for (int axis : {0, 2, 3, 4}) {
    MeshExtents extents;
    (axis == 0 ? extents.pipeline : axis == 2 ? extents.context : axis == 3 ? extents.expert : extents.tensor) = 2;
    const Status status = Mesh::create(extents, 0, 4).status();
    EXPECT_EQ(StatusCode::unsupported, status.code());
    EXPECT_NE(std::string::npos, status.message().find(to_string(static_cast<Axis>(axis)))) << status.message();
  }
}

TEST(Mesh, RefusesExtentsBelowOne) {
  MeshExtents extents;
  extents.tensor = 0;
  EXPECT_EQ(StatusCode::invalid_argument, Mesh::create(extents, 0, 1).status().code());
  extents.tensor = 1;
  extents.data = -1;
  EXPECT_EQ(StatusCode::invalid_argument, Mesh::create(extents, 0, 1).status().code());
}

ParameterLayout gpt_layout(std::int64_t layers, std::int64_t width, bool tied) {
  return make_gpt({layers, width, 1, 16, 31, tied}).value()->layout();
}

TEST(ParameterLayout, InitialValuesDependOnSeedParameterAndElementOnly) {
  const ParameterLayout two = gpt_layout(2, 12, true);
  std::vector<float> a(two.flat_elements(), 9.0f), b(a), c(a);
  two.initialize(a.data(), 5);
  two.initialize(b.data(), 5);
  two.initialize(c.data(), 6);
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < two.elements(0); ++i) sum += a[i], squares += a[i] * a[i];
  const auto count = static_cast<double>(two.elements(0));
  EXPECT_NEAR(0.0, sum / count, 0.004);
  EXPECT_NEAR(0.02, std::sqrt(squares / count), 0.003);
}

TEST(ParameterLayout, ProjectionsOntoTheResidualPathStartSmaller) {
  const ParameterLayout layout = gpt_layout(8, 48, true);
  for (int id = 0; id < layout.count(); ++id) {
    const ParameterSpec& spec = layout.spec(id);
    if (spec.name.find("c_proj.weight") == std::string::npos) continue;
    EXPECT_FLOAT_EQ(0.02f / 4.0f, spec.initializer.deviation) << spec.name;
  }
}

TEST(ParameterLayout, DecayGroupsAreMatricesOnlyAndCoverEverything) {
  const ParameterLayout layout = gpt_layout(2, 12, false);
  std::size_t covered = 0;
  for (const ParameterLayout::Group& group : layout.groups()) {
    EXPECT_EQ(covered, group.begin);
    covered = group.end;
  }
  EXPECT_EQ(layout.flat_elements(), covered);
  for (int id = 0; id < layout.count(); ++id) {
    EXPECT_EQ(layout.spec(id).shape.rank() == 2, layout.spec(id).decay) << layout.spec(id).name;
    for (const ParameterLayout::Group& group : layout.groups()) {
      if (layout.offset(id) < group.begin || layout.offset(id) >= group.end) continue;
      EXPECT_EQ(layout.spec(id).decay, group.decay) << layout.spec(id).name;
      EXPECT_LE(layout.offset(id) + layout.elements(id), group.end);
    }
  }
}

TEST(GradientBuckets, CoverEveryParameterOnceFromTheEnd) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{500}, std::size_t{4096}, std::size_t{100'000'000}}) {
    const ParameterLayout layout = gpt_layout(3, 20, true);
    const std::vector<GradientBuckets::Bucket> buckets = GradientBuckets::plan(layout, bytes);
    std::multiset<int> seen;
    std::size_t end = layout.flat_elements();
    for (const GradientBuckets::Bucket& bucket : buckets) {
      EXPECT_EQ(end, bucket.end);
      end = bucket.begin;
      EXPECT_EQ(layout.offset(bucket.first_parameter), bucket.begin);
      for (int id = bucket.first_parameter; id <= bucket.last_parameter; ++id) seen.insert(id);
    }
    EXPECT_EQ(0u, end);
    ASSERT_EQ(static_cast<std::size_t>(layout.count()), seen.size());
    for (int id = 0; id < layout.count(); ++id) EXPECT_EQ(1u, seen.count(id));
    EXPECT_EQ(bytes == 1, buckets.size() == static_cast<std::size_t>(layout.count()));
    EXPECT_EQ(bytes == 100'000'000, buckets.size() == 1);
  }
}

TEST(CosineSchedule, WarmsUpDecaysAndStays) {
  const CosineSchedule schedule{1.0, 0.1, 100, 1100};
  EXPECT_DOUBLE_EQ(0.0, schedule.at(0));
  EXPECT_DOUBLE_EQ(0.5, schedule.at(50));
  EXPECT_DOUBLE_EQ(1.0, schedule.at(100));
  EXPECT_NEAR(0.55, schedule.at(600), 1e-12);
  EXPECT_NEAR(0.1, schedule.at(1100), 1e-12);
  EXPECT_NEAR(0.1, schedule.at(5000), 1e-12);
  const CosineSchedule none{1.0, 0.1, 0, 0};
  EXPECT_DOUBLE_EQ(0.1, none.at(10));
}

std::string counting_text(int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text.push_back(static_cast<char>('a' + i % 26));
  return text;
}

TEST(ByteCorpus, SequencesAreNextBytesAndStayInTheirPart) {
  const ByteCorpus corpus = ByteCorpus::from_text(counting_text(2000), 31).value();
  EXPECT_EQ(100, corpus.held_out_bytes());
  std::vector<std::int32_t> tokens(31), targets(31);
  for (std::uint64_t ordinal = 0; ordinal < 5000; ++ordinal) {
    const std::int64_t position = corpus.training_position(1, ordinal);
    ASSERT_GE(position, 0);
    ASSERT_LE(position + 32, corpus.training_bytes());
    corpus.training_sequence(1, ordinal, tokens.data(), targets.data());
    ASSERT_EQ('a' + position % 26, tokens[0]);
    for (int i = 0; i < 30; ++i)
      ASSERT_EQ(tokens[static_cast<std::size_t>(i) + 1], targets[static_cast<std::size_t>(i)]);
    ASSERT_EQ('a' + (position + 31) % 26, targets[30]);
  }
  EXPECT_EQ(3, corpus.held_out_sequences());
  corpus.held_out_sequence(2, tokens.data(), targets.data());
  EXPECT_EQ('a' + (1900 + 62) % 26, tokens[0]);
}

TEST(ByteCorpus, OrderIsAFunctionOfSeedAndOrdinal) {
  const ByteCorpus corpus = ByteCorpus::from_text(counting_text(100'000), 16).value();
  std::set<std::int64_t> positions;
  for (std::uint64_t ordinal = 0; ordinal < 100; ++ordinal) {
    EXPECT_EQ(corpus.training_position(4, ordinal), corpus.training_position(4, ordinal));
    positions.insert(corpus.training_position(4, ordinal));
  }
  EXPECT_GT(positions.size(), 90u);
  EXPECT_NE(corpus.training_position(4, 0), corpus.training_position(5, 0));
}

TEST(ByteCorpus, EntropyAndFingerprint) {
  const ByteCorpus corpus = ByteCorpus::from_text(counting_text(2600), 16).value();
  EXPECT_NEAR(std::log(26.0), corpus.unigram_entropy(), 1e-12);
  EXPECT_NE(corpus.fingerprint(), ByteCorpus::from_text(counting_text(2601), 16).value().fingerprint());
}

TEST(ByteCorpus, ErrorsSayWhatToDo) {
  const Status missing = ByteCorpus::load({"/nonexistent/text"}, 16).status();
  EXPECT_EQ(StatusCode::not_found, missing.code());
  EXPECT_NE(std::string::npos, missing.message().find("/nonexistent/text"));
  EXPECT_EQ(StatusCode::invalid_argument, ByteCorpus::load({"/"}, 16).status().code());
  const Status brief = ByteCorpus::from_text(counting_text(33), 16).status();
  EXPECT_EQ(StatusCode::invalid_argument, brief.code());
  EXPECT_NE(std::string::npos, brief.message().find("at least 34")) << brief.message();
  EXPECT_TRUE(ByteCorpus::from_text(counting_text(34), 16).is_ok());
  EXPECT_FALSE(ByteCorpus::from_text("", 16).is_ok());
}

}  // namespace
}  // namespace trireme
