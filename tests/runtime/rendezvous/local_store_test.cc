// A world of one rank needs neither socket nor thread.
#include <filesystem>
#include <thread>

#include <unistd.h>

#include <gtest/gtest.h>

#include <trireme/rendezvous/world.h>

namespace trireme {
namespace {

std::shared_ptr<World> alone() {
  WorldOptions options;
  options.standalone = true;
  return World::join(options).value();
}

int count_entries(const char* folder) {
  int entries = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++entries;
  return entries;
}

TEST(Standalone, KnowsItself) {
  const auto world = alone();
  EXPECT_EQ(world->rank(), 0);
  EXPECT_EQ(world->size(), 1);
  EXPECT_EQ(world->local_size(), 1);
  EXPECT_EQ(world->node_count(), 1);
  EXPECT_EQ(world->peer(0).pid, ::getpid());
  EXPECT_FALSE(world->peer(0).host_identity.empty());
}

TEST(Standalone, OpensNoDescriptorAndNoThread) {
  const int descriptors = count_entries("/proc/self/fd");
  const int threads = count_entries("/proc/self/task");
  const auto world = alone();
  EXPECT_EQ(count_entries("/proc/self/fd"), descriptors);
  EXPECT_EQ(count_entries("/proc/self/task"), threads);
}

TEST(Standalone, KeysCountersExchange) {
  const auto world = alone();
  ASSERT_TRUE(world->put("k", "v").is_ok());
  EXPECT_EQ(*world->get("k", Deadline::never()), "v");
  EXPECT_EQ(*world->add("c", 5), 5);
  EXPECT_EQ(*world->add("c", -7), -2);
  EXPECT_FALSE(world->add("c", INT64_MIN).is_ok());
  EXPECT_EQ(*world->exchange("x", {0}, "mine", Deadline::never()), std::vector<std::string>{"mine"});
  EXPECT_EQ(world->exchange("x", {1}, "", Deadline::never()).status().code(), StatusCode::invalid_argument);
  EXPECT_EQ(world->get("absent", Deadline::after_ms(1)).status().code(), StatusCode::deadline_exceeded);
  EXPECT_EQ(world->put("", "v").code(), StatusCode::invalid_argument);
}

TEST(Standalone, GetWaitsForAnotherThread) {
  const auto world = alone();
  std::thread writer([&] { ASSERT_TRUE(world->put("late", "x").is_ok()); });
  EXPECT_EQ(*world->get("late", Deadline::after_ms(60'000)), "x");
  writer.join();
}

TEST(Standalone, FailureEndsWaits) {
  const auto world = alone();
  std::thread reporter([&] { world->report_failure({aborted("given up"), -1, 0}); });
  EXPECT_EQ(world->get("never", Deadline::after_ms(60'000)).status().code(), StatusCode::aborted);
  reporter.join();
  EXPECT_EQ(world->failure()->status.message(), "given up");
}

TEST(Standalone, ActivityOfAllSources) {
  const auto world = alone();
  EXPECT_EQ(world->collect_activities(Deadline::never())[0], "");
  const auto first = world->set_activity_source([] { return std::string("first"); });
  auto second = world->set_activity_source([] { return std::string("second"); });
  EXPECT_EQ(world->collect_activities(Deadline::never())[0], "firstsecond");
  second.reset();
  EXPECT_EQ(world->collect_activities(Deadline::never())[0], "first");
}

}  // namespace
}  // namespace trireme
