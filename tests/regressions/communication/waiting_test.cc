// Waiting: for peers that are slow, gone, or busy; its end by abort; its price.
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>
#include <trireme/platform/clock.h>

#include "collectives/execute/post_office.h"
#include "runtime/platform/api/system.h"
#include "runtime/rendezvous/api/local_worlds.h"
#include "runtime/transport/api/fabric.h"
#include "runtime/transport/table/api/transport_table.h"
#include "tests/collectives/memory_channel.h"
#include "tests/collectives/thread_ranks.h"
#include "tests/regressions/regression_test.h"

namespace trireme::testing {
namespace {

using Waiting = RegressionTest;

// A call that moves is not late, however long it takes (its deadline counts standing still).
TEST_F(Waiting, ASlowCallThatMovesOutlivesItsDeadline) {
  const RunResult result = trireme(job({"-n", "2"}, {"drip", "1200", "268435456"}), "", {"TRIREME_TRANSPORT=tcp"});
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  const std::vector<std::string> ends = lines_with(result, " deadlines: ");
  ASSERT_EQ(ends.size(), 2U) << result.out;
  for (const std::string& end : ends) {
    EXPECT_GE(std::stoi(end), 2) << "too fast to show anything: " << end;
    EXPECT_NE(end.find("ok"), std::string::npos) << end;
  }
}

// A message of one rank alone to itself waits for its other half; nobody else can move it,
// and nobody may try.
TEST_F(Waiting, OneRankAloneMayLeaveAMessageToItselfPending) {
  test::run_ranks(1, test::patient(), [](Communicator& c) {
    for (int round = 0; round < 200; ++round) {
      int sent = round;
      int received = -1;
      Work send = c.send_async(&sent, 1, DataType::i32, 0);
      std::this_thread::yield();
      EXPECT_FALSE(send.test());
      EXPECT_TRUE(c.receive(&received, 1, DataType::i32, 0).is_ok());
      EXPECT_TRUE(send.wait().is_ok());
      EXPECT_EQ(received, round);
    }
  });
}

// Whether a host has a processor for each of its ranks is a question to all of them: a rank
// that may run on one processor only (as mpirun binds it) is no sign of a crowd.
TEST_F(Waiting, RanksBoundToAProcessorEachAreNoCrowd) {
  const int cpus = usable_cpu_count();
  if (cpus < 2) GTEST_SKIP() << "needs two processors";
  // How many ranks there are, and to which processor rank r is bound (-1: to none).
  const std::vector<std::pair<std::vector<int>, bool>> cases = {
      {{0, 1}, false}, {{0, 0}, true}, {{-1, -1}, false}, {{0, -1}, false}, {{0, 1, 0}, true}};
  for (const auto& [bound, crowded] : cases) {
    if (bound.size() > 2 && cpus != 2) continue;
    auto worlds = make_local_worlds(static_cast<int>(bound.size()));
    ASSERT_TRUE(worlds.is_ok()) << worlds.status().to_string();
    std::vector<std::thread> ranks;
    for (std::size_t rank = 0; rank < bound.size(); ++rank) {
      ranks.emplace_back([&, rank, crowd = crowded, cpu = bound[rank]] {
        if (cpu >= 0) {
          ASSERT_TRUE(bind_to_cpu(cpu).is_ok());
        }
        FabricOptions options;
        options.transports = transport_table();
        const auto fabric = Fabric::create(worlds.value()[rank], options);
        ASSERT_TRUE(fabric.is_ok()) << fabric.status().to_string();
        EXPECT_EQ(fabric.value()->host().ranks, static_cast<int>(worlds.value().size()));
        EXPECT_EQ(fabric.value()->host().crowded(), crowd) << fabric.value()->host().cpus << " processors";
      });
    }
    for (std::thread& rank : ranks) rank.join();
  }
}

// The same for messages, without a clock: whose time counts anew after which movement.
class MessageProgress : public ::testing::Test {
 protected:
  MessageProgress() {
    auto [left, right] = test::memory_channels(4096, 4096);
    sender = std::make_unique<PostOffice>(std::move(left), 0);
    receiver = std::make_unique<PostOffice>(std::move(right), 1);
  }
  static void prepare(OperationState& operation, CallKind kind, std::vector<std::byte>& data, int tag) {
    operation.call.kind = kind;
    operation.call.type = DataType::u8;
    operation.call.root = kind == CallKind::send ? 1 : 0;
    operation.call.tag = tag;
    operation.call.count = data.size();
    operation.input = data.data();
    operation.output = data.data();
  }
  void turn() {
    sender->advance();
    receiver->advance();
  }
  // Both look at the clock, which says `ticks`.
  void look(std::uint64_t ticks) {
    sender->note_progress(ticks);
    receiver->note_progress(ticks);
  }
  std::unique_ptr<PostOffice> sender;
  std::unique_ptr<PostOffice> receiver;
};

TEST_F(MessageProgress, ALargeMessageThatMovesIsNotLateAndExcusesWhatMayStandBehindIt) {
  std::vector<std::byte> large(1 << 20), taken(1 << 20), other(10);
  OperationState send, receive, waits;
  prepare(send, CallKind::send, large, 1);
  prepare(receive, CallKind::receive, taken, 1);
  prepare(waits, CallKind::receive, other, 2);
  sender->post(&send);
  receiver->post(&receive);
  receiver->post(&waits);
  for (std::uint64_t ticks = 1; !receive.done() && ticks < 100'000; ++ticks) {
    turn();
    if (send.done() || receive.done()) break;
    look(ticks);
    if (ticks < 4) continue;  // Announced and cleared.
    EXPECT_EQ(receiver->oldest()->progress_ticks, ticks);
    EXPECT_EQ(sender->oldest()->progress_ticks, ticks);
  }
  for (int i = 0; i < 100 && !receive.done(); ++i) turn();
  ASSERT_TRUE(receive.done());
  look(200'000);  // Its last bytes moved since.
  turn();
  look(300'000);
  EXPECT_EQ(receiver->oldest(), &waits);
  EXPECT_EQ(waits.progress_ticks, 200'000U) << "nothing moves any more: its time runs";
  receiver->fail(aborted("the end of the test"));
}

TEST_F(MessageProgress, SmallMessagesOfOtherTagsExcuseNobody) {
  std::vector<std::byte> small(16), taken(16), other(10);
  OperationState waits;
  prepare(waits, CallKind::receive, other, 2);
  waits.progress_ticks = 1;
  receiver->post(&waits);
  for (std::uint64_t ticks = 2; ticks < 50; ++ticks) {
    OperationState send, receive;
    prepare(send, CallKind::send, small, 1);
    prepare(receive, CallKind::receive, taken, 1);
    sender->post(&send);
    receiver->post(&receive);
    for (int i = 0; i < 4; ++i) turn();
    ASSERT_TRUE(send.done() && receive.done());
    look(ticks);
    EXPECT_EQ(waits.progress_ticks, 1U);
  }
  receiver->fail(aborted("the end of the test"));
}

TEST_F(Waiting, Gloo520_TheFirstMessageToADeadPeerEndsAtOnce) {
  for (const char* transport : {"shm", "tcp"}) {
    const RunResult result = trireme(job({"-n", "3", "--grace", "5"}, {"lost_before_first_message"}), "",
                                     {std::string("TRIREME_TRANSPORT=") + transport, "TRIREME_TIMEOUT_MS=600000"});
    EXPECT_EQ(result.code, 128 + SIGKILL) << result.err;
    const std::vector<std::string> stories = lines_with(result, "failed:");
    EXPECT_EQ(stories.size(), 2U) << result.out << result.err;
    for (const std::string& story : stories) {
      EXPECT_NE(story.find("peer_dead: rank 1 ("), std::string::npos) << story;
      EXPECT_EQ(story, stories[0]);
    }
  }
}

TEST_F(Waiting, Ucx7093_BusyMachinesKillNobody) {
  const RunResult result = trireme(job({"-n", "8"}, {"busy", "3", "2"}));
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_EQ(lines_with(result, "done").size(), 8U);
}
TEST_F(Waiting, Ucx7093_BusyMachinesKillNobodyForTenMinutesLong) {
  Running running = start(job({"-n", "8"}, {"busy", "600", "2"}));
  ASSERT_TRUE(running.process.wait(Deadline::after_ms(900'000)).is_ok());
  const RunResult result = finish(running);
  EXPECT_EQ(result.code, 0) << result.out << result.err;
}

// Two ranks all-reduce without end; at any moment a third thread aborts one of them.
void abort_at_random_points(int rounds) {
  for (int round = 0; round < rounds; ++round) {
    std::atomic<bool> entered{false};
    std::atomic<int> ended{0};
    std::atomic<std::uint64_t> aborted_at{0};
    std::atomic<std::uint64_t> longest_ns{0};
    test::run_ranks(2, test::patient(), [&](Communicator& c) {
      std::thread aborter;
      if (c.rank() == round % 2) {
        aborter = std::thread([&] {
          while (!entered) std::this_thread::yield();
          std::this_thread::sleep_for(std::chrono::microseconds(round * 211 % 3000));
          aborted_at = system_clock().now_ns();
          c.abort("the test says so");
        });
      }
      std::vector<float> data(1 + static_cast<std::size_t>(round * 4099 % 200'000), 1.0f);
      Status status;
      while (status.is_ok()) {
        status = c.all_reduce(data.data(), data.data(), data.size(), DataType::f32, ReduceOp::max);
        entered = true;
      }
      const std::uint64_t took = system_clock().now_ns() - aborted_at;
      if (took > longest_ns) longest_ns = took;
      EXPECT_EQ(status.code(), StatusCode::aborted) << status.to_string();
      EXPECT_NE(status.message().find("the test says so"), std::string::npos) << status.to_string();
      ++ended;
      if (aborter.joinable()) aborter.join();
    });
    EXPECT_EQ(ended.load(), 2);
    EXPECT_LT(longest_ns.load(), 3'000'000'000U) << "a second, and what a busy machine adds";
  }
}

TEST(Abort, Nccl1013_EndsEveryoneAtAnyMoment) {
  abort_at_random_points(40);
}
TEST(Abort, Nccl1013_EndsEveryoneAtAThousandMomentsLong) {
  abort_at_random_points(1000);
}

std::uint64_t processor_ms_of_this_thread() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return static_cast<std::uint64_t>((usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
                                    (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000);
}
std::uint64_t processor_ms_of_this_process() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>((usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
                                    (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000);
}

// A rank alone has no paths that a progress thread could look after, whatever it leaves unfinished.
TEST(Alone, UnfinishedMessagesToOneselfNeedNoProgressThread) {
  test::run_ranks(1, test::patient(), [](Communicator& c) {
    int left = -1;
    Work unfinished = c.receive_async(&left, 1, DataType::i32, 0, 1);
    for (int i = 0; i < 100'000; ++i) {  // Time enough for a thread that wants to look after it.
      int in = -1;
      Work receive = c.receive_async(&in, 1, DataType::i32, 0, 2);
      Work send = c.send_async(&i, 1, DataType::i32, 0, 2);
      ASSERT_TRUE(send.wait().is_ok());
      ASSERT_TRUE(receive.wait().is_ok());
      ASSERT_EQ(in, i);
      std::this_thread::yield();
    }
    const int out = 7;
    ASSERT_TRUE(c.send(&out, 1, DataType::i32, 0, 1).is_ok());
    ASSERT_TRUE(unfinished.wait().is_ok());
    EXPECT_EQ(left, out);
    int never = -1;
    Work receive = c.receive_async(&never, 1, DataType::i32, 0, 1);
    EXPECT_EQ(receive.wait().code(), StatusCode::invalid_argument) << "its other half was not started";
  });
}

// A rank that waits for another one sleeps, and so do its service threads.
TEST(Idle, Nccl374_WaitingTakesNoProcessor) {
  constexpr std::uint64_t kIdleMs = 2000;
  for (const char* transport : {"shm", "tcp"}) {
    CommunicatorOptions options = test::patient();
    options.transport = transport;
    test::run_ranks(3, options, [&](Communicator& c) {
      EXPECT_TRUE(c.barrier().is_ok());
      const std::uint64_t whole_before = processor_ms_of_this_process();
      if (c.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(kIdleMs));
      const std::uint64_t whole = processor_ms_of_this_process() - whole_before;
      const std::uint64_t before = processor_ms_of_this_thread();
      std::vector<float> data(1000, 1.0f);
      EXPECT_TRUE(c.all_reduce(data.data(), data.data(), data.size(), DataType::f32, ReduceOp::sum).is_ok());
      // 3 % is allowed: a wait begins with some spinning, and asks the others now and then.
      if (c.rank() != 1) {
        EXPECT_LE(processor_ms_of_this_thread() - before, kIdleMs * 3 / 100) << transport;
      }
      if (c.rank() == 1) {
        EXPECT_LE(whole, kIdleMs * 3 * 3 / 100) << transport << ": all ranks and services";
      }
    });
  }
}

}  // namespace
}  // namespace trireme::testing
