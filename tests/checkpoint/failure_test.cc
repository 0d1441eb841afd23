#include "tests/checkpoint/checkpoint_test_util.h"

#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <future>

#include "runtime/platform/api/fault.h"

namespace trireme {
namespace {

using namespace checkpoint_test;

TEST(Failure, EveryFailingCallLeavesTheOldCheckpointAndNothingElse) {
  const TemporaryFolder folder;
  const auto checkpointer = lone_checkpointer(folder.path());
  Model model(0, 1);
  model.fill(1);
  ASSERT_TRUE(save_and_wait(*checkpointer, 1, model.state()).is_ok());
  for (const std::string_view bad : {"file.mkdir", "file.open", "file.allocate", "file.write", "file.fsync",
                                     "file.close", "file.rename", "file.lock", "file.stat"}) {
    model.fill(2);
    Status status;
    {
      const ScopedFaultInjector injector([&](std::string_view site) { return site == bad ? ENOSPC : 0; });
      const auto handle = checkpointer->save(2, model.state());
      ASSERT_TRUE(handle.is_ok()) << "training goes on";
      status = handle->wait();
    }
    EXPECT_EQ(status.code(), StatusCode::resource_exhausted) << bad << ": " << status.to_string();
    EXPECT_EQ(checkpointer->wait().code(), StatusCode::resource_exhausted) << "wait() reports it";
    EXPECT_TRUE(checkpointer->wait().is_ok()) << "once";
    EXPECT_EQ(step_names(folder.path()), std::vector<std::string>{"step-00000001"}) << "after " << bad;
    ASSERT_TRUE(checkpointer->load_newest(model.state()).is_ok());
    EXPECT_EQ(model.differences(1), 0U);
  }
  model.fill(3);
  EXPECT_TRUE(save_and_wait(*checkpointer, 3, model.state()).is_ok()) << "and saving works again";
}

// Found by a newcomer: a rank that was stopped while the others committed kept them from
// ending, for the commit's ten minutes, though their training had given it up.
TEST(Failure, NobodyWaitsWithACommitForARankThatIsGivenUp) {
  const TemporaryFolder folder;
  std::promise<void> ended;
  on_ranks(2, [&](std::shared_ptr<World> world) {
    CheckpointerOptions options;
    options.directory = folder.path();
    auto checkpointer = Checkpointer::create(world, options).value();
    if (world->rank() == 1) return ended.get_future().wait();  // Saves nothing.
    Model model(0, 2);
    model.fill(1);
    const auto handle = checkpointer->save(1, model.state());
    ASSERT_TRUE(handle.is_ok()) << handle.status().to_string();
    EXPECT_FALSE(handle->done());
    // What a communicator reports whose deadline has passed.
    world->report_failure({deadline_exceeded("rank 1 does not answer"), 1, 77});
    checkpointer.reset();
    EXPECT_TRUE(handle->done());
    EXPECT_EQ(handle->wait().code(), StatusCode::deadline_exceeded);
    EXPECT_EQ(world->failure()->culprit_rank, 1);
    ended.set_value();
  });
  EXPECT_TRUE(step_names(folder.path()).empty());
}

TEST(Failure, TheNextSaveTellsOfTheLastFailure) {
  const TemporaryFolder folder;
  const auto checkpointer = lone_checkpointer(folder.path());
  Model model(0, 1);
  {
    const ScopedFaultInjector injector([&](std::string_view site) { return site == "file.fsync" ? EIO : 0; });
    const auto failed = checkpointer->save(1, model.state());
    EXPECT_TRUE(failed->previous_error().is_ok());
    EXPECT_EQ(failed->wait().code(), StatusCode::io_error);
    ASSERT_TRUE(checkpointer->prepare(model.state()).is_ok()) << "waits until the failed save is over";
  }
  const auto next = checkpointer->save(2, model.state());
  EXPECT_EQ(next->previous_error().code(), StatusCode::io_error);
  EXPECT_TRUE(next->wait().is_ok());
  EXPECT_TRUE(checkpointer->wait().is_ok()) << "reported once";
}

TEST(Failure, OneRankWithAFullDiskFailsTheSaveOnAll) {
  const TemporaryFolder folder;
  on_ranks(3, [&](std::shared_ptr<World> world) {
    Model model(world->rank(), world->size());
    model.fill(1);
    CheckpointerOptions options;
    options.directory = folder.path();
    auto checkpointer = Checkpointer::create(world, options).value();
    ASSERT_TRUE(save_and_wait(*checkpointer, 1, model.state()).is_ok());
    // Only rank 2's folder cannot be written: a folder lies where its file should be.
    if (world->rank() == 2) {
      ASSERT_TRUE(make_directories(folder / "step-00000002.tmp-1/shard-00002.bin").is_ok());
    }
    const Status status = save_and_wait(*checkpointer, 2, model.state());
    EXPECT_FALSE(status.is_ok());
    EXPECT_NE(status.message().find("rank 2"), std::string::npos) << status.to_string();
  });
  EXPECT_EQ(step_names(folder.path()), std::vector<std::string>{"step-00000001"});
}

TEST(Failure, AFullTmpfs) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to mount a small tmpfs";
  const TemporaryFolder folder;
  if (::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=256k") != 0) {
    GTEST_SKIP() << "needs the right to mount a tmpfs";
  }
  {
    const auto checkpointer = lone_checkpointer(folder.path());
    std::vector<float> data(40'000, 1.0F);  // 156 KiB: fits once, not twice.
    CheckpointState state;
    state.items = {{"x", DataType::f32, ShardSpec::whole({40'000}), data.data()}};
    EXPECT_TRUE(save_and_wait(*checkpointer, 1, state).is_ok());
    const Status full = save_and_wait(*checkpointer, 2, state);
    EXPECT_EQ(full.code(), StatusCode::resource_exhausted) << full.to_string();
    EXPECT_NE(full.message().find("ENOSPC"), std::string::npos);
    EXPECT_EQ(step_names(folder.path()), std::vector<std::string>{"step-00000001"});
    EXPECT_TRUE(checkpointer->load_newest(state).is_ok());
  }
  EXPECT_EQ(::umount(folder.path().c_str()), 0);
}

Status create_status(const std::string& directory) {
  CheckpointerOptions options;
  options.directory = directory;
  return Checkpointer::create(lone_world(), options).status();
}

TEST(Failure, AFileInPlaceOfTheDirectoryIsNamed) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file_atomically(folder / "file", "x").is_ok());
  const Status status = create_status(folder / "file");
  EXPECT_EQ(status.code(), StatusCode::already_exists);
  EXPECT_NE(status.message().find("in the way"), std::string::npos);
  EXPECT_FALSE(create_status(folder / "file/below").is_ok());
}

TEST(Failure, AnUnlistableDirectoryIsPermissionDenied) {
  const TemporaryFolder folder;
  const ScopedFaultInjector injector([&](std::string_view site) { return site == "file.list" ? EACCES : 0; });
  const Status status = create_status(folder.path());
  EXPECT_EQ(status.code(), StatusCode::permission_denied);
  EXPECT_EQ(exit_code(status.code()), 2);
  EXPECT_NE(status.message().find(folder.path()), std::string::npos);
}

// In a process that is not root, since root may read everything.
TEST(Failure, AnUnreadableDirectoryIsPermissionDenied) {
  const TemporaryFolder folder;
  ASSERT_EQ(::chmod(folder.path().c_str(), 0), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 && (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0)) ::_exit(1);
    ::_exit(create_status(folder.path()).code() == StatusCode::permission_denied ? 0 : 2);
  }
  int state = 0;
  ASSERT_EQ(::waitpid(child, &state, 0), child);
  EXPECT_EQ(state, 0);
  ASSERT_EQ(::chmod(folder.path().c_str(), 0700), 0);
}

TEST(Failure, ADeadRankEndsTheSaveAndNothingIsCommitted) {
  const TemporaryFolder folder;
  auto worlds = make_local_worlds(2).value();
  on_ranks(worlds, [&](std::shared_ptr<World> world) {
    CheckpointerOptions options;
    options.directory = folder.path();
    auto checkpointer = Checkpointer::create(world, options).value();
    if (world->rank() == 1) {
      world->report_failure({peer_dead("rank 1 was killed"), 1, 0});
      return;
    }
    Model model(0, 2);
    const Status status = save_and_wait(*checkpointer, 1, model.state());
    EXPECT_EQ(status.code(), StatusCode::peer_dead) << status.to_string();
  });
  EXPECT_EQ(step_names(folder.path()).size(), 0U);
}

}  // namespace
}  // namespace trireme
