// SIGKILL at random moments: whatever the moment, the newest committed checkpoint loads.
#include "tests/checkpoint/checkpoint_test_util.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace trireme {
namespace {

using namespace checkpoint_test;

// Saves step after step until it is killed, and tells of each commit through `pipe`.
[[noreturn]] void train_until_killed(const std::string& directory, int pipe) {
  const auto checkpointer = lone_checkpointer(directory, 2);
  Model model(0, 1);
  std::int64_t step = 0;
  const auto resumed = checkpointer->load_newest(model.state());
  if (!resumed.is_ok()) ::_exit(3);
  if (resumed->has_value()) step = (**resumed).metadata.step;
  while (true) {
    ++step;
    model.fill(static_cast<std::uint64_t>(step));
    const auto handle = checkpointer->save(step, model.state());
    if (!handle.is_ok() || !handle->wait().is_ok()) ::_exit(4);
    if (::write(pipe, &step, sizeof(step)) != sizeof(step)) ::_exit(5);
  }
}

void kill_at_random_moments(int times) {
  const TemporaryFolder folder;
  std::mt19937 random(20261130);
  std::int64_t told = 0;  // The last commit that a child has told of.
  for (int round = 0; round < times; ++round) {
    int fds[2];
    ASSERT_EQ(::pipe(fds), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(fds[0]);
      train_until_killed(folder.path(), fds[1]);
    }
    ::close(fds[1]);
    // The first moment is any; later ones follow a commit by up to a save's time.
    if (round % 3 != 0) {
      ASSERT_EQ(::read(fds[0], &told, sizeof(told)), static_cast<ssize_t>(sizeof(told)));
    }
    ::usleep(random() % 6000);
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself with code " << WEXITSTATUS(status);
    for (std::int64_t step = 0; ::read(fds[0], &step, sizeof(step)) == static_cast<ssize_t>(sizeof(step));) told = step;
    ::close(fds[0]);

    Model model(0, 1);
    const auto checkpointer = lone_checkpointer(folder.path(), 2);
    const auto loaded = checkpointer->load_newest(model.state());
    ASSERT_TRUE(loaded.is_ok()) << loaded.status().to_string();
    if (!loaded->has_value()) {
      ASSERT_EQ(told, 0);
      continue;
    }
    const std::int64_t step = (**loaded).metadata.step;
    ASSERT_TRUE((**loaded).skipped.empty()) << (**loaded).skipped[0];
    ASSERT_TRUE(step == told || step == told + 1) << "loaded " << step << ", told of " << told;
    ASSERT_EQ(model.differences(static_cast<std::uint64_t>(step)), 0U);
    for (const std::string& name : step_names(folder.path())) ASSERT_EQ(name.find(".tmp-"), std::string::npos);
    told = step;
  }
  EXPECT_GT(told, 0) << "some saves got through";
}

TEST(Kill, TheNewestCommitAlwaysLoads) {
  kill_at_random_moments(30);
}
TEST(Kill, TheNewestCommitAlwaysLoadsLong) {
  kill_at_random_moments(200);
}

}  // namespace
}  // namespace trireme
