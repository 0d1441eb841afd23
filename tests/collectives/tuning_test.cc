// The tuning table, and the choice by it.
#include "collectives/select/tuning.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>

#include <trireme/base/philox.h>

#include "collectives/select/selector.h"
#include "runtime/platform/api/files.h"
#include "tests/collectives/thread_ranks.h"

namespace trireme {
namespace {

plan::Request request_of(std::int64_t count, int ranks = 2) {
  plan::Request request;
  request.collective = plan::Collective::all_reduce;
  request.ranks = ranks;
  request.count = count;
  request.element_bytes = 4;
  return request;
}

TuningTable example() {
  TuningTable table;
  table.machine = machine_identity();
  table.algorithms = algorithm_names();
  table.ranks = 2;
  table.network = {2e-6, 1e-10, 1e-10};
  using plan::Collective;
  table.times = {{Collective::all_reduce, "direct", 8, 1e-6},
                 {Collective::all_reduce, "direct", 1 << 20, 900e-6},
                 {Collective::all_reduce, "ring", 8, 4e-6},
                 {Collective::all_reduce, "ring", 1 << 20, 300e-6}};
  return table;
}

TEST(Tuning, RoundTripsAndRefusesDamage) {
  const TuningTable table = example();
  const std::string text = tuning_to_json(table);
  const Result<TuningTable> back = tuning_from_json(text);
  ASSERT_TRUE(back.is_ok()) << back.status().to_string();
  EXPECT_EQ(tuning_to_json(*back), text);
  const auto refused = [&](const std::string& from, const std::string& to, const std::string& part) {
    std::string damaged = text;
    damaged.replace(damaged.find(from), from.size(), to);
    const Result<TuningTable> result = tuning_from_json(damaged);
    ASSERT_FALSE(result.is_ok()) << from;
    EXPECT_NE(result.status().message().find(part), std::string::npos) << result.status().message();
  };
  refused("tuning/1", "tuning/9", "tuning/9");
  refused("all_reduce", "all_reduces", "unknown op");
  refused("\"ranks\": 2", "\"ranks\": 1", "2 or more");
  refused("\"bytes\": 8", "\"bytes\": -8", "above 0");
  refused("\"times\"", "\"tomes\"", "times");
  const PhiloxKey key = make_philox_key(3, 1, 0);
  for (std::uint64_t round = 0; round < 500; ++round) {
    std::string damaged = text;
    damaged[philox_below(key, round, 0, text.size())] = static_cast<char>(philox_below(key, round, 1, 256));
    const Result<TuningTable> result = tuning_from_json(damaged);
    EXPECT_TRUE(!result.is_ok() || result->ranks >= 2);
  }
}

TEST(Tuning, InterpolatesBetweenMeasuredSizes) {
  const TuningTable table = example();
  const plan::Algorithm& ring = *plan::find_algorithm("ring");
  EXPECT_DOUBLE_EQ(*table.seconds(ring, request_of(2)), 4e-6);
  EXPECT_DOUBLE_EQ(*table.seconds(ring, request_of(1)), 4e-6) << "smaller than measured takes no less";
  EXPECT_DOUBLE_EQ(*table.seconds(ring, request_of(1 << 18)), 300e-6);
  EXPECT_DOUBLE_EQ(*table.seconds(ring, request_of(1 << 20)), 1200e-6) << "larger: at the same bandwidth";
  double last = 0;
  for (std::int64_t count = 2; count <= 1 << 20; count *= 2) {
    const double seconds = *table.seconds(ring, request_of(count));
    EXPECT_GE(seconds, last);
    last = seconds;
  }
  EXPECT_FALSE(table.seconds(ring, request_of(2, 3)).has_value()) << "other ranks were not measured";
  EXPECT_FALSE(table.seconds(*plan::find_algorithm("pairwise"), request_of(2)).has_value());
  plan::Request wide = request_of(2);
  wide.wide = true;
  EXPECT_FALSE(table.seconds(ring, wide).has_value());
}

TEST(Tuning, TheSelectorTakesWhatWasFastest) {
  const Selector selector({}, {}, std::make_shared<TuningTable>(example()));
  EXPECT_EQ(selector.choose(request_of(2))->name, "direct");
  EXPECT_EQ(selector.choose(request_of(1 << 18))->name, "ring");
  EXPECT_NE(selector.explain(request_of(2)).find("not considered"), std::string::npos);
  const Selector forced({}, parse_forced_algorithms("all_reduce:pairwise").value(),
                        std::make_shared<TuningTable>(example()));
  EXPECT_EQ(forced.choose(request_of(2))->name, "pairwise");
}

// The table in the file that TRIREME_TUNING names is used by all ranks; a broken one by none.
TEST(Tuning, CommunicatorsUseTheFile) {
  const std::string folder = make_temporary_directory("trireme-tuning").value();
  const std::string path = folder + "/table.json";
  ASSERT_TRUE(write_file_atomically(path, tuning_to_json(example())).is_ok());
  ::setenv("TRIREME_TUNING", path.c_str(), 1);
  std::mutex mutex;
  std::vector<std::string> texts;
  const auto body = [&](Communicator& communicator) {
    const std::string text = communicator.explain_all_reduce(1 << 18, DataType::f32, ReduceOp::sum);
    float one = 1;
    EXPECT_TRUE(communicator.all_reduce(&one, &one, 1, DataType::f32, ReduceOp::sum).is_ok());
    EXPECT_EQ(one, 2);
    const std::lock_guard lock(mutex);
    texts.push_back(text);
  };
  test::run_ranks(2, test::patient(), body);
  ASSERT_EQ(texts.size(), 2u);
  for (const std::string& text : texts) {
    EXPECT_NE(text.find("ring, because it took the least time when this machine was measured"), std::string::npos)
        << text;
  }
  TuningTable foreign = example();
  foreign.machine = "another";
  ASSERT_TRUE(write_file_atomically(path, tuning_to_json(foreign)).is_ok());
  texts.clear();
  test::run_ranks(2, test::patient(), body);
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_EQ(texts[0].find("was measured"), std::string::npos) << texts[0];
  ::unsetenv("TRIREME_TUNING");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace trireme
