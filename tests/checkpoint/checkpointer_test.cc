#include "tests/checkpoint/checkpoint_test_util.h"

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "runtime/platform/api/fault.h"

namespace trireme {
namespace {

using namespace checkpoint_test;

TEST(Checkpointer, AnEmptyDirectoryHoldsNothing) {
  const TemporaryFolder folder;
  Model model(0, 1);
  const auto loaded = lone_checkpointer(folder / "a/b")->load_newest(model.state());
  ASSERT_TRUE(loaded.is_ok()) << loaded.status().to_string();
  EXPECT_FALSE(loaded->has_value());
  EXPECT_TRUE(file_info(folder / "a/b")->is_directory);
}

TEST(Checkpointer, SavesAndLoadsEverything) {
  const TemporaryFolder folder;
  const auto checkpointer = lone_checkpointer(folder.path());
  Model model(0, 1);
  model.fill(7);
  ASSERT_TRUE(checkpointer->prepare(model.state()).is_ok());
  const auto handle = checkpointer->save(120, model.state());
  ASSERT_TRUE(handle.is_ok());
  EXPECT_TRUE(handle->wait().is_ok()) << handle->wait().to_string();
  EXPECT_TRUE(handle->done());
  EXPECT_EQ(handle->step(), 120);
  EXPECT_GT(handle->statistics().bytes, 37U * 19 * 4 * 2);
  EXPECT_EQ(step_names(folder.path()), std::vector<std::string>{"step-00000120"});

  Model other(0, 1);
  other.fill(8);
  const auto loaded = checkpointer->load_newest(other.state());
  ASSERT_TRUE(loaded.is_ok()) << loaded.status().to_string();
  EXPECT_EQ(other.differences(7), 0U);
  EXPECT_EQ((*loaded)->path, folder / "step-00000120");
  EXPECT_EQ((*loaded)->metadata.step, 120);
  EXPECT_EQ(other.state().metadata.step, 120);
  EXPECT_EQ(other.state().metadata.data_position, 70U);
  EXPECT_EQ(other.state().metadata.random_counter, 700U);
  EXPECT_EQ(other.state().metadata.values.at("loss"), "7");
}

// Holds every write until it is opened.
class Gate {
 public:
  int operator()(std::string_view site) {
    if (site != "file.write") return 0;
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [this] { return open_; });
    return 0;
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};

TEST(Checkpointer, WhatChangesAfterSaveIsNotSaved) {
  const TemporaryFolder folder;
  const auto checkpointer = lone_checkpointer(folder.path());
  Model model(0, 1);
  model.fill(1);
  Gate gate;
  {
    const ScopedFaultInjector injector([&](std::string_view site) { return gate(site); });
    const auto handle = checkpointer->save(1, model.state());
    model.fill(2);  // Nothing is on disk yet.
    model.state().metadata.values["loss"] = "changed";
    EXPECT_FALSE(handle->done());
    EXPECT_EQ(handle->wait(Deadline::after_ms(1)).code(), StatusCode::deadline_exceeded);
    gate.open();
    EXPECT_TRUE(handle->wait().is_ok());
  }
  ASSERT_TRUE(checkpointer->load_newest(model.state()).is_ok());
  EXPECT_EQ(model.differences(1), 0U);
  EXPECT_EQ(model.state().metadata.values.at("loss"), "1");
}

TEST(Checkpointer, ASecondSaveWaitsForTheFirst) {
  const TemporaryFolder folder;
  const auto checkpointer = lone_checkpointer(folder.path(), 0);
  Model model(0, 1);
  std::vector<SaveHandle> handles;
  for (std::uint64_t step = 1; step <= 10; ++step) {
    model.fill(step);
    handles.push_back(checkpointer->save(static_cast<std::int64_t>(step), model.state()).value());
    EXPECT_TRUE(step == 1 || handles[step - 2].done());
  }
  EXPECT_TRUE(checkpointer->wait().is_ok());
  for (std::uint64_t step = 1; step <= 10; ++step) {
    EXPECT_TRUE(handles[step - 1].wait().is_ok());
    const auto loaded = checkpointer->load(
        folder / ("step-000000" + std::string(step < 10 ? "0" : "") + std::to_string(step)), model.state());
    ASSERT_TRUE(loaded.is_ok()) << loaded.status().to_string();
    EXPECT_EQ(model.differences(step), 0U);
  }
}

TEST(Checkpointer, TheSameStepIsReplaced) {
  const TemporaryFolder folder;
  const auto checkpointer = lone_checkpointer(folder.path());
  Model model(0, 1);
  for (const std::uint64_t seed : {1U, 2U}) {
    model.fill(seed);
    ASSERT_TRUE(save_and_wait(*checkpointer, 5, model.state()).is_ok());
  }
  model.fill(3);
  ASSERT_TRUE(checkpointer->load_newest(model.state()).is_ok());
  EXPECT_EQ(model.differences(2), 0U);
  EXPECT_EQ(step_names(folder.path()), std::vector<std::string>{"step-00000005"});
}

TEST(Checkpointer, KeepsTheNewestCommitsNotTheHighestSteps) {
  const TemporaryFolder folder;
  Model model(0, 1);
  const auto checkpointer = lone_checkpointer(folder.path(), 2);
  for (const std::int64_t step : {10, 20, 30, 40}) {
    model.fill(static_cast<std::uint64_t>(step));
    ASSERT_TRUE(save_and_wait(*checkpointer, step, model.state()).is_ok());
  }
  EXPECT_EQ(step_names(folder.path()), (std::vector<std::string>{"step-00000030", "step-00000040"}));
  // Resumed from an older one by hand: what is saved now is the newest.
  const auto resumed = lone_checkpointer(folder.path(), 2);
  model.fill(35);
  ASSERT_TRUE(save_and_wait(*resumed, 35, model.state()).is_ok());
  EXPECT_EQ(step_names(folder.path()), (std::vector<std::string>{"step-00000035", "step-00000040"}));
  const auto loaded = resumed->load_newest(model.state());
  EXPECT_EQ((*loaded)->metadata.step, 35);
}

TEST(Checkpointer, BadStatesAreReportedOnTheHandle) {
  const TemporaryFolder folder;
  const auto checkpointer = lone_checkpointer(folder.path());
  const auto status_of = [&](const std::function<void(CheckpointState&)>& change) {
    Model model(0, 1);
    model.fill(1);
    change(model.state());
    return save_and_wait(*checkpointer, 1, model.state());
  };
  EXPECT_EQ(status_of([](CheckpointState& s) { s.items[0].name = ""; }).code(), StatusCode::invalid_argument);
  EXPECT_EQ(status_of([](CheckpointState& s) { s.items[0].data = nullptr; }).code(), StatusCode::invalid_argument);
  const Status twice = status_of([](CheckpointState& s) { s.items[1].name = s.items[0].name; });
  EXPECT_NE(twice.message().find("'parameters/w'"), std::string::npos);
  EXPECT_EQ(status_of([](CheckpointState& s) { s.items[0].shard.end += 1; }).code(), StatusCode::invalid_argument);
  EXPECT_EQ(status_of([](CheckpointState& s) { s.items[0].shard.replicas = 2; }).code(), StatusCode::data_loss);
  EXPECT_EQ(status_of([](CheckpointState& s) { s.metadata.values["x"] = "\xff"; }).code(),
            StatusCode::invalid_argument);
  Model model(0, 1);
  EXPECT_EQ(save_and_wait(*checkpointer, -1, model.state()).code(), StatusCode::invalid_argument);
  EXPECT_EQ(step_names(folder.path()).size(), 0U) << "nothing is left behind";
  EXPECT_TRUE(status_of([](CheckpointState&) {}).is_ok()) << "and saving goes on";
}

TEST(Checkpointer, WhatAProgramDoesNotReadIsAMismatch) {
  const TemporaryFolder folder;
  const auto checkpointer = lone_checkpointer(folder.path());
  Model model(0, 1);
  model.fill(1);
  ASSERT_TRUE(save_and_wait(*checkpointer, 1, model.state()).is_ok());
  const auto status_of = [&](const std::function<void(CheckpointState&)>& change) {
    Model other(0, 1);
    change(other.state());
    return checkpointer->load_newest(other.state()).status();
  };
  const Status missing = status_of([](CheckpointState& s) { s.items[0].name = "parameters/new"; });
  EXPECT_EQ(missing.code(), StatusCode::mismatch);
  const Status unread = status_of([](CheckpointState& s) { s.items.erase(s.items.begin() + 2); });
  EXPECT_EQ(unread.code(), StatusCode::mismatch);
  EXPECT_NE(unread.message().find("'moments/w'"), std::string::npos);
  const Status type = status_of([](CheckpointState& s) { s.items[0].type = DataType::i32; });
  EXPECT_EQ(type.code(), StatusCode::mismatch);
  EXPECT_NE(type.message().find("f32 [37, 19] in the checkpoint and i32 [37, 19]"), std::string::npos);
  EXPECT_EQ(status_of([](CheckpointState& s) {
              s.items[0].shard.global_shape = {19, 37};
            }).code(),
            StatusCode::mismatch);

  Model part(0, 1);
  part.state().items.resize(1);
  LoadOptions options;
  options.allow_unread_items = true;
  ASSERT_TRUE(checkpointer->load_newest(part.state(), options).is_ok());
  EXPECT_EQ(std::memcmp(part.state().items[0].data, model.state().items[0].data, 37 * 19 * 4), 0);
}

TEST(Checkpointer, OptionsAreChecked) {
  CheckpointerOptions options;
  EXPECT_EQ(Checkpointer::create(lone_world(), options).status().code(), StatusCode::invalid_argument);
  options.directory = "/tmp";
  options.keep_last = -1;
  EXPECT_EQ(Checkpointer::create(lone_world(), options).status().code(), StatusCode::invalid_argument);
}

TEST(Checkpointer, ManyItemsLargerThanABlock) {
  const TemporaryFolder folder;
  const auto checkpointer = lone_checkpointer(folder.path());
  std::vector<std::uint64_t> data((9U << 20) / 8 + 3);  // Two checksum blocks and a little.
  std::mt19937_64 random(11);
  for (std::uint64_t& value : data) value = random();
  CheckpointState state;
  const Shape shape{static_cast<std::int64_t>(data.size())};
  state.items = {{"small", DataType::u64, ShardSpec::whole({2}), data.data()},
                 {"large", DataType::u64, ShardSpec::whole(shape), data.data()}};
  ASSERT_TRUE(save_and_wait(*checkpointer, 1, state).is_ok());
  // A range that begins and ends inside blocks.
  std::vector<std::uint64_t> part(700'000);
  CheckpointState wanted;
  std::uint64_t two[2] = {};
  wanted.items = {{"small", DataType::u64, ShardSpec::whole({2}), two},
                  {"large", DataType::u64, {shape, 400'001, 1'100'001, 0, 1}, part.data()}};
  const auto loaded = checkpointer->load_newest(wanted);
  ASSERT_TRUE(loaded.is_ok()) << loaded.status().to_string();
  EXPECT_TRUE(std::equal(part.begin(), part.end(), data.begin() + 400'001));
  EXPECT_EQ(two[1], data[1]);
}

std::size_t resident_kib() {
  const std::string text = read_file("/proc/self/status").value();
  return std::stoul(text.substr(text.find("VmRSS:") + 6));
}

TEST(Checkpointer, MemoryStaysFlatOverFiftySavesLong) {
  const TemporaryFolder folder;
  const auto checkpointer = lone_checkpointer(folder.path(), 2);
  std::vector<float> data(4 << 20, 1.0F);
  CheckpointState state;
  state.items = {{"x", DataType::f32, ShardSpec::whole({4 << 20}), data.data()}};
  std::size_t after_warmup = 0;
  for (std::int64_t step = 1; step <= 55; ++step) {
    ASSERT_TRUE(save_and_wait(*checkpointer, step, state).is_ok());
    if (step == 5) after_warmup = resident_kib();
  }
  EXPECT_LT(resident_kib(), after_warmup + after_warmup / 100 + 1024) << "one percent and a MiB of slack";
}

}  // namespace
}  // namespace trireme
