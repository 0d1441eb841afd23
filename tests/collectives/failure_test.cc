// What happens when ranks disagree, do not come, or give up: every rank gets the same
// words, and they name who did it. Ranks as threads; tests/multi_process has processes.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <set>
#include <string>

#include "tests/collectives/thread_ranks.h"

namespace trireme {
namespace {

using test::patient;
using test::run_ranks;

constexpr int kRanks = 4;

// What each rank's call returned.
class Outcomes {
 public:
  void add(int rank, Status status) {
    const std::lock_guard lock(mutex_);
    statuses_[static_cast<std::size_t>(rank)] = std::move(status);
    if (++count_ == kRanks) all_.notify_all();
  }
  void wait_for_all() {
    std::unique_lock lock(mutex_);
    all_.wait(lock, [&] { return count_ == kRanks; });
  }
  void expect_all(StatusCode code, const std::vector<std::string>& parts, int but = -1) const {
    std::set<std::string> texts;
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      if (static_cast<int>(rank) == but) continue;
      const Status& status = statuses_[rank];
      EXPECT_EQ(status.code(), code) << "rank " << rank << ": " << status.to_string();
      for (const std::string& part : parts) {
        EXPECT_NE(status.message().find(part), std::string::npos) << "rank " << rank << ": " << status.to_string();
      }
      texts.insert(status.message());
    }
    EXPECT_EQ(texts.size(), 1u) << "the ranks tell different stories";
  }

 private:
  std::mutex mutex_;
  std::condition_variable all_;
  std::vector<Status> statuses_ = std::vector<Status>(kRanks);
  int count_ = 0;
};

using Calling = std::function<Status(Communicator&, float*)>;

// Rank 2 makes `other`, the rest `usual`; both are named in every rank.
void expect_mismatch(const Calling& usual, const Calling& other, const std::string& usual_text,
                     const std::string& other_text) {
  Outcomes outcomes;
  run_ranks(kRanks, patient(), [&](Communicator& c) {
    std::vector<float> data(4096, 1.0f);
    Status status = c.barrier();  // Others may be ahead and have broken it already.
    if (status.is_ok()) status = (c.rank() == 2 ? other : usual)(c, data.data());
    // A call may end before the disagreement is known: the next one must not.
    while (status.is_ok()) status = c.barrier();
    outcomes.add(c.rank(), status);
    EXPECT_EQ(c.status().code(), status.code());
    EXPECT_EQ(c.barrier().message(), status.message());  // Broken for good.
    outcomes.wait_for_all();
  });
  outcomes.expect_all(StatusCode::mismatch, {usual_text, other_text, "rank 2"});
}

TEST(Mismatch, EachSingleField) {
  const Calling usual = [](Communicator& c, float* d) { return c.all_reduce(d, d, 100, DataType::f32, ReduceOp::sum); };
  const std::string text = "all_reduce(count=100, f32, sum)";
  expect_mismatch(
      usual, [](auto& c, float* d) { return c.all_reduce(d, d, 99, DataType::f32, ReduceOp::sum); }, text,
      "all_reduce(count=99, f32, sum)");
  expect_mismatch(
      usual, [](auto& c, float* d) { return c.all_reduce(d, d, 0, DataType::f32, ReduceOp::sum); }, text,
      "all_reduce(count=0, f32, sum)");
  expect_mismatch(
      usual, [](auto& c, float* d) { return c.all_reduce(d, d, 100, DataType::i32, ReduceOp::sum); }, text,
      "all_reduce(count=100, i32, sum)");
  expect_mismatch(
      usual, [](auto& c, float* d) { return c.all_reduce(d, d, 100, DataType::f32, ReduceOp::max); }, text,
      "all_reduce(count=100, f32, max)");
  expect_mismatch(
      usual, [](auto& c, float* d) { return c.broadcast(d, d, 100, DataType::f32, 0); }, text,
      "broadcast(count=100, f32, root=0)");
  expect_mismatch(
      usual, [](auto& c, float*) { return c.barrier(); }, text, "barrier()");
  expect_mismatch([](auto& c, float* d) { return c.broadcast(d, d, 100, DataType::f32, 0); },
                  [](auto& c, float* d) { return c.broadcast(d, d, 100, DataType::f32, 1); }, "root=0", "root=1");
  expect_mismatch([](auto& c, float* d) { return c.reduce(d, d, 100, DataType::f32, ReduceOp::sum, 3); },
                  [](auto& c, float* d) { return c.reduce(d, d, 100, DataType::f32, ReduceOp::sum, 0); }, "root=3",
                  "root=0");
  expect_mismatch([](auto& c, float*) { return c.barrier(); }, [](auto& c, float*) { return c.split(0, 0).status(); },
                  "barrier()", "split()");
}

TEST(Mismatch, LargeCalls) {
  expect_mismatch([](auto& c, float* d) { return c.all_reduce(d, d, 4096, DataType::f32, ReduceOp::sum); },
                  [](auto& c, float* d) { return c.reduce(d, d, 4096, DataType::f32, ReduceOp::sum, 1); },
                  "all_reduce(count=4096, f32, sum) as its 2nd call",
                  "reduce(count=4096, f32, sum, root=1) as its 2nd call");
}

TEST(Mismatch, MessagesOfAnotherCountOrType) {
  for (const std::size_t size : {10u, 4000u}) {
    Outcomes outcomes;
    run_ranks(kRanks, patient(), [&](Communicator& c) {
      std::vector<float> data(size + 1);
      Status status;
      if (c.rank() == 1) status = c.send(data.data(), size, DataType::f32, 2, 5);
      if (c.rank() == 2) status = c.receive(data.data(), size + 1, DataType::f32, 1, 5);
      while (status.is_ok()) status = c.barrier();
      outcomes.add(c.rank(), status);
      outcomes.wait_for_all();
    });
    outcomes.expect_all(StatusCode::mismatch,
                        {"calls send(count=" + std::to_string(size) + ", f32, destination=2, tag=5)",
                         "calls receive(count=" + std::to_string(size + 1) + ", f32, source=1, tag=5)"});
  }
}

CommunicatorOptions impatient() {
  CommunicatorOptions options;
  options.timeout_ms = 800;
  return options;
}

TEST(Deadline, NamesTheRankThatDoesNotCome) {
  for (const bool ring : {false, true}) {
    Outcomes outcomes;
    CommunicatorOptions options = impatient();
    if (ring) options.algorithm = "ring";
    run_ranks(kRanks, options, [&](Communicator& c) {
      std::vector<float> data(10'000);
      Status status = c.barrier();
      if (c.rank() != 1) status = c.all_reduce(data.data(), data.data(), data.size(), DataType::f32, ReduceOp::sum);
      outcomes.add(c.rank(), status);
      outcomes.wait_for_all();  // Rank 1 is busy in its own code until then.
    });
    outcomes.expect_all(StatusCode::deadline_exceeded,
                        {"all_reduce(count=10000, f32, sum), the 2nd call", "rank 1 (", "has not entered it",
                         "its last collective here was barrier()"},
                        1);
  }
}

// Two communicators made one after the other on the same World: both are looked into.
TEST(Deadline, OfTheOlderOfTwoCommunicators) {
  auto worlds = make_local_worlds(3);
  ASSERT_TRUE(worlds.is_ok());
  Status statuses[3];
  std::vector<std::thread> threads;
  std::atomic<int> left{2};
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank, world = std::move(worlds.value()[static_cast<std::size_t>(rank)])] {
      auto older = Communicator::create(world, impatient());
      auto newer = Communicator::create(world, patient());
      ASSERT_TRUE(older.is_ok() && newer.is_ok());
      float data = 1;
      ASSERT_TRUE(newer.value()->barrier().is_ok());
      if (rank == 2) {
        statuses[2] = older.value()->all_reduce(&data, &data, 1, DataType::f32, ReduceOp::sum);
        left = 0;
      } else if (rank == 1) {  // Blocked in the other one, until rank 0 comes.
        (void)newer.value()->barrier();
      } else {
        while (left.load() > 0) std::this_thread::yield();
        (void)newer.value()->barrier();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(statuses[2].code(), StatusCode::deadline_exceeded);
  EXPECT_NE(statuses[2].message().find("rank 0 ("), std::string::npos) << statuses[2].message();
  EXPECT_NE(statuses[2].message().find("has not entered it"), std::string::npos) << statuses[2].message();
}

TEST(Deadline, OfAsynchronousCallsNobodyWaitsFor) {
  Outcomes outcomes;
  run_ranks(kRanks, impatient(), [&](Communicator& c) {
    std::vector<float> data(100);
    if (c.rank() != 3) {
      Work work = c.all_reduce_async(data.data(), data.data(), data.size(), DataType::f32, ReduceOp::sum);
      while (!work.test()) std::this_thread::yield();
      outcomes.add(c.rank(), work.wait());
    } else {
      outcomes.add(c.rank(), {});
    }
    outcomes.wait_for_all();
  });
  outcomes.expect_all(StatusCode::deadline_exceeded, {"rank 3 (", "has not entered it"}, 3);
}

TEST(Deadline, OfAMessage) {
  Outcomes outcomes;
  run_ranks(kRanks, impatient(), [&](Communicator& c) {
    float data = 0;
    Status status;
    if (c.rank() == 0) status = c.receive(&data, 1, DataType::f32, 2, 1);
    while (c.rank() != 0 && status.is_ok()) {
      status = c.status();
      std::this_thread::yield();
    }
    outcomes.add(c.rank(), status);
    outcomes.wait_for_all();
  });
  outcomes.expect_all(StatusCode::deadline_exceeded, {"receive(count=1, f32, source=2, tag=1)", "rank 2 ("});
}

TEST(Abort, EndsEveryRankFromAnyThread) {
  Outcomes outcomes;
  run_ranks(kRanks, patient(), [&](Communicator& c) {
    std::vector<float> data(1000);
    Status status = c.barrier();
    std::thread aborter;
    if (c.rank() == 3) {
      aborter = std::thread([&] { c.abort("the operator said so"); });
      aborter.join();
    }
    while (status.is_ok()) status = c.all_reduce(data.data(), data.data(), data.size(), DataType::f32, ReduceOp::sum);
    outcomes.add(c.rank(), status);
    outcomes.wait_for_all();
  });
  outcomes.expect_all(StatusCode::aborted, {"rank 3 (", "the operator said so"});
}

// A failure of one communicator leaves the others whole.
TEST(Abort, ConcernsOneCommunicator) {
  run_ranks(kRanks, patient(), [](Communicator& c) {
    auto child = c.split(c.rank() / 2, 0).value();
    if (c.rank() == 0) child->abort("only this one");
    Status status;
    while (c.rank() < 2 && status.is_ok()) status = child->barrier();
    EXPECT_EQ(child->status().is_ok(), c.rank() >= 2);
    EXPECT_TRUE(c.barrier().is_ok());
  });
}

}  // namespace
}  // namespace trireme
