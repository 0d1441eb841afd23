#include "checkpoint/directory.h"

#include "tests/checkpoint/checkpoint_test_util.h"

namespace trireme {
namespace {

using namespace checkpoint_test;

std::shared_ptr<World> world_of(const std::string& job_id, std::int64_t epoch) {
  WorldOptions options;
  options.standalone = true;
  options.job_id = job_id;
  options.epoch = epoch;
  return World::join(options).value();
}

Result<std::unique_ptr<Checkpointer>> attempt(const std::string& directory, const std::string& job_id,
                                              std::int64_t epoch) {
  CheckpointerOptions options;
  options.directory = directory;
  return Checkpointer::create(world_of(job_id, epoch), options);
}

TEST(DirectoryNames, AreRecognised) {
  EXPECT_EQ(checkpoint_name(120), "step-00000120");
  EXPECT_EQ(checkpoint_name(1234567890123), "step-1234567890123");
  EXPECT_EQ(temporary_name(120, 3), "step-00000120.tmp-3");
  EXPECT_EQ(step_of_name("step-00000120"), 120);
  EXPECT_EQ(step_of_name("step-1234567890123"), 1234567890123);
  for (const char* name : {"step-120", "step-00000120.tmp-3", "step-", "step-000000012", "step--0000001", "owner.json",
                           "step-0000012x", "step-99999999999999999999"}) {
    EXPECT_EQ(step_of_name(name), std::nullopt) << name;
  }
}

TEST(Fencing, AnOlderAttemptCannotCommitOverItsSuccessor) {
  const TemporaryFolder folder;
  Model model(0, 1);
  model.fill(1);
  auto old_attempt = attempt(folder.path(), "job", 1).value();
  ASSERT_TRUE(save_and_wait(*old_attempt, 1, model.state()).is_ok());
  auto new_attempt = attempt(folder.path(), "job", 2).value();

  const Status late = save_and_wait(*old_attempt, 2, model.state());
  EXPECT_EQ(late.code(), StatusCode::stale_epoch);
  EXPECT_NE(late.message().find("epoch 2"), std::string::npos) << late.to_string();
  EXPECT_EQ(old_attempt->save(3, model.state()).status().code(), StatusCode::stale_epoch) << "refused from now on";
  EXPECT_EQ(step_names(folder.path()), std::vector<std::string>{"step-00000001"});
  EXPECT_TRUE(save_and_wait(*new_attempt, 2, model.state()).is_ok());
  EXPECT_EQ(attempt(folder.path(), "job", 1).status().code(), StatusCode::stale_epoch) << "nor claim again";
}

TEST(Fencing, AnotherJobDisplacesTheFirst) {
  const TemporaryFolder folder;
  Model model(0, 1);
  auto first = attempt(folder.path(), "first", 9).value();
  auto second = attempt(folder.path(), "second", 1).value();
  const Status status = save_and_wait(*first, 1, model.state());
  EXPECT_EQ(status.code(), StatusCode::stale_epoch);
  EXPECT_NE(status.message().find("job 'second'"), std::string::npos);
  EXPECT_TRUE(save_and_wait(*second, 1, model.state()).is_ok());
}

TEST(Fencing, TheSameAttemptTwiceLeavesOneOwner) {
  const TemporaryFolder folder;
  Model model(0, 1);
  auto first = lone_checkpointer(folder.path());
  auto second = lone_checkpointer(folder.path());
  EXPECT_EQ(save_and_wait(*first, 1, model.state()).code(), StatusCode::stale_epoch);
  EXPECT_TRUE(save_and_wait(*second, 1, model.state()).is_ok());
}

TEST(Fencing, AClearedDirectoryFailsSavesButIsNoSuccessor) {
  const TemporaryFolder folder;
  Model model(0, 1);
  auto owner = lone_checkpointer(folder / "c");
  ASSERT_TRUE(remove_tree(folder / "c").is_ok());
  for (int i = 0; i < 2; ++i) {
    const Status status = save_and_wait(*owner, 1, model.state());
    EXPECT_EQ(status.code(), StatusCode::not_found);
    EXPECT_NE(status.message().find("Restart"), std::string::npos) << status.to_string();
  }
}

TEST(Fencing, ReadersDisturbNobody) {
  const TemporaryFolder folder;
  Model model(0, 1);
  model.fill(4);
  auto owner = lone_checkpointer(folder.path());
  ASSERT_TRUE(save_and_wait(*owner, 1, model.state()).is_ok());
  CheckpointerOptions options;
  options.directory = folder.path();
  options.read_only = true;
  auto reader = Checkpointer::create(lone_world(), options).value();
  Model other(0, 1);
  ASSERT_TRUE(reader->load_newest(other.state()).is_ok());
  EXPECT_EQ(other.differences(4), 0U);
  EXPECT_EQ(reader->save(2, other.state()).status().code(), StatusCode::invalid_argument);
  EXPECT_TRUE(save_and_wait(*owner, 2, model.state()).is_ok());
}

TEST(Leftovers, OfDeadAttemptsAreRemovedAndNothingElse) {
  const TemporaryFolder folder;
  for (const char* name :
       {"step-00000001.tmp-1/shard", "step-00000002.tmp-deleted/shard", "step-7.tmp-1/x", "mine.tmp-1/x"}) {
    ASSERT_TRUE(make_directories(folder / name).is_ok());
  }
  lone_checkpointer(folder.path());
  EXPECT_EQ(*list_directory(folder.path()),
            (std::vector<std::string>{".lock", "mine.tmp-1", "owner.json", "step-7.tmp-1"}));
}

TEST(Leftovers, ADamagedOwnerFileIsExplained) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file_atomically(folder / "owner.json", "{").is_ok());
  const Status status = attempt(folder.path(), "job", 1).status();
  EXPECT_EQ(status.code(), StatusCode::data_loss);
  EXPECT_NE(status.message().find("remove it"), std::string::npos);
}

}  // namespace
}  // namespace trireme
