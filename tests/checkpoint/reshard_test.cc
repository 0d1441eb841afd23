#include "tests/checkpoint/checkpoint_test_util.h"

#include <atomic>

namespace trireme {
namespace {

using namespace checkpoint_test;

void save_at(int ranks, const std::string& directory, std::int64_t step) {
  on_ranks(ranks, [&](std::shared_ptr<World> world) {
    Model model(world->rank(), world->size());
    model.fill(static_cast<std::uint64_t>(step));
    CheckpointerOptions options;
    options.directory = directory;
    auto checkpointer = Checkpointer::create(world, options);
    ASSERT_TRUE(checkpointer.is_ok()) << checkpointer.status().to_string();
    const Status saved = save_and_wait(**checkpointer, step, model.state());
    EXPECT_TRUE(saved.is_ok()) << saved.to_string();
  });
}

void load_at(int ranks, const std::string& directory, std::int64_t step) {
  on_ranks(ranks, [&](std::shared_ptr<World> world) {
    Model model(world->rank(), world->size());
    CheckpointerOptions options;
    options.directory = directory;
    options.read_only = true;
    auto checkpointer = Checkpointer::create(world, options);
    ASSERT_TRUE(checkpointer.is_ok()) << checkpointer.status().to_string();
    const auto loaded = (*checkpointer)->load_newest(model.state());
    ASSERT_TRUE(loaded.is_ok()) << loaded.status().to_string();
    ASSERT_TRUE(loaded->has_value());
    EXPECT_EQ((*loaded)->metadata.step, step);
    EXPECT_EQ(model.differences(static_cast<std::uint64_t>(step)), 0U) << "rank " << world->rank();
  });
}

TEST(Reshard, SavedAtFourLoadsAtAnyNumberBitwise) {
  const TemporaryFolder folder;
  save_at(4, folder.path(), 9);
  EXPECT_EQ(list_directory(folder / "step-00000009")->size(), 5U) << "four shards and the manifest";
  for (const int ranks : {1, 2, 3, 4, 6}) load_at(ranks, folder.path(), 9);
}

TEST(Reshard, GrowsAndShrinksFromRunToRun) {
  const TemporaryFolder folder;
  for (const int ranks : {1, 3, 5, 2}) {
    save_at(ranks, folder.path(), ranks);
    load_at(7 - ranks, folder.path(), ranks);
  }
}

TEST(Reshard, ReplicatedBytesAreWrittenOnce) {
  const TemporaryFolder folder;
  save_at(3, folder.path(), 1);
  std::uint64_t bytes = 0;
  const std::vector<std::string> names = list_directory(folder / "step-00000001").value();
  for (const std::string& name : names) {
    if (name != "manifest.json") bytes += file_info(folder / ("step-00000001/" + name))->bytes;
  }
  std::uint64_t content = 0;
  for (const ItemKind& kind : item_kinds()) {
    content += static_cast<std::uint64_t>(kind.shape.elements()) * size_of(kind.type);
  }
  EXPECT_GE(bytes, content);
  EXPECT_LT(bytes, content + 3 * item_kinds().size() * 64) << "only alignment comes on top";
}

TEST(Reshard, BackToBackSavesOfManyRanks) {
  const TemporaryFolder folder;
  on_ranks(5, [&](std::shared_ptr<World> world) {
    Model model(world->rank(), world->size());
    CheckpointerOptions options;
    options.directory = folder.path();
    auto checkpointer = Checkpointer::create(world, options).value();
    for (std::int64_t step = 1; step <= 8; ++step) {
      model.fill(static_cast<std::uint64_t>(step));
      ASSERT_TRUE(checkpointer->save(step, model.state()).is_ok());
    }
    model.fill(99);
    ASSERT_TRUE(checkpointer->load_newest(model.state()).is_ok()) << "waits for the save in progress";
    EXPECT_EQ(model.differences(8), 0U);
    EXPECT_TRUE(checkpointer->wait().is_ok());
  });
  EXPECT_EQ(step_names(folder.path()).size(), 3U);
}

TEST(Reshard, ARankThatLacksItsPartFailsTheSaveEverywhere) {
  const TemporaryFolder folder;
  std::atomic<int> failures{0};
  on_ranks(3, [&](std::shared_ptr<World> world) {
    Model model(world->rank(), world->size());
    model.fill(1);
    if (world->rank() == 1) model.state().items.erase(model.state().items.begin() + 2);
    CheckpointerOptions options;
    options.directory = folder.path();
    auto checkpointer = Checkpointer::create(world, options).value();
    const Status status = save_and_wait(*checkpointer, 1, model.state());
    EXPECT_EQ(status.code(), StatusCode::data_loss);
    EXPECT_NE(status.message().find("'moments/w'"), std::string::npos) << status.to_string();
    failures += status.is_ok() ? 0 : 1;
  });
  EXPECT_EQ(failures.load(), 3);
  EXPECT_EQ(step_names(folder.path()).size(), 0U);
}

TEST(Reshard, RanksThatSaveDifferentStepsAreTold) {
  const TemporaryFolder folder;
  on_ranks(2, [&](std::shared_ptr<World> world) {
    Model model(world->rank(), world->size());
    CheckpointerOptions options;
    options.directory = folder.path();
    auto checkpointer = Checkpointer::create(world, options).value();
    const Status status = save_and_wait(*checkpointer, 10 + world->rank(), model.state());
    EXPECT_EQ(status.code(), StatusCode::mismatch);
    EXPECT_NE(status.message().find("step 11"), std::string::npos) << status.to_string();
  });
}

}  // namespace
}  // namespace trireme
