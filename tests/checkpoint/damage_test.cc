#include "tests/checkpoint/checkpoint_test_util.h"

namespace trireme {
namespace {

using namespace checkpoint_test;

class Damage : public testing::Test {
 protected:
  void SetUp() override {
    checkpointer_ = lone_checkpointer(folder_.path());
    for (const std::uint64_t step : {1U, 2U, 3U}) {
      model_.fill(step);
      ASSERT_TRUE(save_and_wait(*checkpointer_, static_cast<std::int64_t>(step), model_.state()).is_ok());
    }
  }
  std::string file(int step, const std::string& name = "shard-00000.bin") const {
    return folder_ / ("step-0000000" + std::to_string(step) + "/" + name);
  }
  void flip(const std::string& path, std::uint64_t offset) {
    File opened = File::open(path, File::Mode::update).value();
    char byte = 0;
    ASSERT_TRUE(opened.pread(&byte, 1, offset).is_ok());
    byte = static_cast<char>(byte ^ 0x10);
    ASSERT_TRUE(opened.pwrite(&byte, 1, offset).is_ok());
  }
  void expect_newest(std::uint64_t step, std::size_t skipped) {
    model_.fill(99);
    const auto loaded = checkpointer_->load_newest(model_.state());
    ASSERT_TRUE(loaded.is_ok()) << loaded.status().to_string();
    EXPECT_EQ((*loaded)->metadata.step, static_cast<std::int64_t>(step));
    EXPECT_EQ((*loaded)->skipped.size(), skipped);
    EXPECT_EQ(model_.differences(step), 0U);
  }

  TemporaryFolder folder_;
  std::unique_ptr<Checkpointer> checkpointer_;
  Model model_{0, 1};
};

TEST_F(Damage, AFlippedByteFallsBack) {
  flip(file(3), 100);
  expect_newest(2, 1);
  const Status explicit_load = checkpointer_->load(folder_ / "step-00000003", model_.state()).status();
  EXPECT_EQ(explicit_load.code(), StatusCode::data_loss);
  EXPECT_NE(explicit_load.message().find("checksum"), std::string::npos);
  EXPECT_NE(explicit_load.message().find("'parameters/w'"), std::string::npos) << explicit_load.to_string();
}

TEST_F(Damage, ATruncatedFileFallsBack) {
  ASSERT_TRUE(File::open(file(3), File::Mode::update)->truncate(50).is_ok());
  expect_newest(2, 1);
  ASSERT_TRUE(File::open(file(2), File::Mode::update)->truncate(0).is_ok());
  expect_newest(1, 2);
}

TEST_F(Damage, AMissingFileFallsBack) {
  ASSERT_TRUE(remove_file(file(3)).is_ok());
  expect_newest(2, 1);
}

TEST_F(Damage, ADamagedManifestFallsBack) {
  flip(file(3, "manifest.json"), 40);
  ASSERT_TRUE(File::open(file(2, "manifest.json"), File::Mode::create).is_ok());
  expect_newest(1, 2);
}

TEST_F(Damage, ARenamedCheckpointIsNotTrusted) {
  ASSERT_TRUE(rename_path(folder_ / "step-00000003", folder_ / "step-00000007").is_ok());
  expect_newest(2, 1);
}

TEST_F(Damage, WhenAllAreDamagedThatIsAnError) {
  for (const int step : {1, 2, 3}) flip(file(step), 0);
  const Status status = checkpointer_->load_newest(model_.state()).status();
  EXPECT_EQ(status.code(), StatusCode::data_loss);
  for (const int step : {1, 2, 3}) {
    EXPECT_NE(status.message().find("step-0000000" + std::to_string(step)), std::string::npos) << status.to_string();
  }
}

TEST_F(Damage, AMissingOneThatWasAskedForIsNotFound) {
  EXPECT_EQ(checkpointer_->load(folder_ / "step-00000004", model_.state()).status().code(), StatusCode::not_found);
  EXPECT_EQ(checkpointer_->load(file(3), model_.state()).status().code(), StatusCode::not_found);
  EXPECT_EQ(checkpointer_->load(folder_.path(), model_.state()).status().code(), StatusCode::data_loss);
  EXPECT_EQ(checkpointer_->load("", model_.state()).status().code(), StatusCode::invalid_argument);
}

TEST_F(Damage, TheDamagedStepCanBeSavedAgain) {
  flip(file(3), 100);
  expect_newest(2, 1);
  model_.fill(3);
  ASSERT_TRUE(save_and_wait(*checkpointer_, 3, model_.state()).is_ok());
  expect_newest(3, 0);
}

TEST(DamageOfManyRanks, AllFallBackTogether) {
  const TemporaryFolder folder;
  const auto worlds = make_local_worlds(3).value();
  on_ranks(worlds, [&](std::shared_ptr<World> world) {
    Model model(world->rank(), world->size());
    CheckpointerOptions options;
    options.directory = folder.path();
    auto checkpointer = Checkpointer::create(world, options).value();
    for (const std::uint64_t step : {1U, 2U}) {
      model.fill(step);
      ASSERT_TRUE(save_and_wait(*checkpointer, static_cast<std::int64_t>(step), model.state()).is_ok());
    }
  });
  // Damage in the moments of the last rank, which no other rank reads.
  const std::string shard = folder / "step-00000002/shard-00002.bin";
  const std::uint64_t bytes = file_info(shard)->bytes;
  File file = File::open(shard, File::Mode::update).value();
  std::string zeros(bytes, '\0');
  ASSERT_TRUE(file.pwrite(zeros.data(), bytes, 0).is_ok());
  on_ranks(worlds, [&](std::shared_ptr<World> world) {
    Model model(world->rank(), world->size());
    CheckpointerOptions options;
    options.directory = folder.path();
    options.read_only = true;
    auto checkpointer = Checkpointer::create(world, options).value();
    const auto loaded = checkpointer->load_newest(model.state());
    ASSERT_TRUE(loaded.is_ok()) << loaded.status().to_string();
    EXPECT_EQ((*loaded)->metadata.step, 1);
    EXPECT_EQ(model.differences(1), 0U);
    EXPECT_EQ((*loaded)->skipped.size(), world->rank() == 0 ? 1U : 0U);
  });
}

}  // namespace
}  // namespace trireme
