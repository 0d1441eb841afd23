// Saving beside training: neither waits for the other's communication.
#include <trireme/collectives/communicator.h>

#include "tests/checkpoint/checkpoint_test_util.h"
#include "tests/regressions/regression_test.h"

namespace trireme::checkpoint_test {
namespace {

// Back-to-back saves while the training thread all-reduces, in an order of its own on every
// rank: a save that used the training communicator would meet those calls.
TEST(SavesBesideTraining, KempnerForge104_NeverMeetTheTrainingCommunicator) {
  constexpr int kRanks = 3;
  constexpr int kSteps = 12;
  const TemporaryFolder folder;
  on_ranks(kRanks, [&](std::shared_ptr<World> world) {
    CommunicatorOptions patient;
    patient.timeout_ms = 60'000;
    auto communicator = Communicator::create(world, patient).value();
    CheckpointerOptions options;
    options.directory = folder.path();
    auto checkpointer = Checkpointer::create(world, options).value();
    Model model(world->rank(), world->size());
    std::vector<std::int32_t> data(5000);
    for (int step = 1; step <= kSteps; ++step) {
      model.fill(static_cast<std::uint64_t>(step));
      ASSERT_TRUE(checkpointer->save(step, model.state()).is_ok());
      for (int call = 0; call < 5; ++call) {
        std::fill(data.begin(), data.end(), step + call);
        const Status status =
            communicator->all_reduce(data.data(), data.data(), data.size(), DataType::i32, ReduceOp::sum);
        ASSERT_TRUE(status.is_ok()) << status.to_string();
        ASSERT_EQ(data.front(), kRanks * (step + call));
        ASSERT_EQ(data.back(), kRanks * (step + call));
      }
    }
    EXPECT_TRUE(checkpointer->wait().is_ok());
    model.fill(0);
    const auto loaded = checkpointer->load_newest(model.state());
    ASSERT_TRUE(loaded.is_ok() && loaded->has_value());
    EXPECT_EQ(model.differences(kSteps), 0U);
  });
}

// A full disk: training completes, with every metric, and the exit code tells.
class FullDisk : public testing::RegressionTest {};

TEST_F(FullDisk, Orbax605_AResultThatIsNotOnDiskIsNoSuccess) {
  const std::string mount = unshare("--mount");
  if (mount.empty()) GTEST_SKIP() << "needs a mount namespace (root, or user namespaces permitted)";
  const testing::RunResult result = shell(
      "mkdir $folder/small\n"
      "for i in $(seq 2000); do echo 'The quick brown fox jumps over the lazy dog.'; done > $folder/text\n" +
      mount + "sh -c 'mount -t tmpfs -o size=128k tmpfs $folder/small && $trireme -n 2 --max-restarts 2 -- " +
      TRIREME_BINARY_DIR
      "/bin/trireme-gpt --data $folder/text --steps 4 --layers 1 --dim 64 --heads 2 --seq 32 "
      "--batch 4 --checkpoint-dir $folder/small/checkpoints --checkpoint-every 2 --metrics $folder/metrics'");
  EXPECT_EQ(result.code, 2) << result.out << result.err;
  EXPECT_NE(result.err.find("training is complete, but its last checkpoint could not be saved"), std::string::npos)
      << result.err;
  EXPECT_NE(result.err.find("No space left"), std::string::npos) << result.err;
  const auto metrics = read_file(file("metrics"));
  ASSERT_TRUE(metrics.is_ok());
  EXPECT_EQ(testing::lines_of(*metrics).size(), 4U) << *metrics;
}

}  // namespace
}  // namespace trireme::checkpoint_test
