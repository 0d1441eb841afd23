// The communicator with ranks as threads: every type, operation and odd count, in place
// and not, blocking and asynchronous.
#include <trireme/collectives/communicator.h>

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>

#include "tests/collectives/reference.h"
#include "tests/collectives/thread_ranks.h"

namespace trireme {
namespace {

using test::patient;
using test::run_ranks;

struct Shape {
  DataType type;
  ReduceOp op;
  std::size_t count;
  bool in_place;
};

void check_all_reduce(Communicator& c, const Shape& s) {
  auto input = test::make_input(s.type, s.op, c.rank(), s.count);
  const auto kept = input;
  std::vector<std::byte> output(input.size());
  std::byte* target = s.in_place ? input.data() : output.data();
  EXPECT_OK(c.all_reduce(input.data(), target, s.count, s.type, s.op));
  EXPECT_EQ(test::compare_reduced(s.type, s.op, c.size(), target, s.count), "");
  EXPECT_TRUE(s.in_place || input == kept);
}

void check_reduce(Communicator& c, const Shape& s) {
  const int root = static_cast<int>(s.count) % c.size();
  auto input = test::make_input(s.type, s.op, c.rank(), s.count);
  std::vector<std::byte> output(input.size());
  std::byte* target = s.in_place ? input.data() : output.data();
  EXPECT_OK(c.reduce(input.data(), c.rank() == root ? target : nullptr, s.count, s.type, s.op, root));
  if (c.rank() == root) {
    EXPECT_EQ(test::compare_reduced(s.type, s.op, c.size(), target, s.count), "");
  }
}

void check_broadcast(Communicator& c, const Shape& s) {
  const int root = static_cast<int>(s.count + 1) % c.size();
  auto input = test::make_input(s.type, s.op, root, s.count);
  std::vector<std::byte> output(input.size());
  const bool is_root = c.rank() == root;
  std::byte* target = s.in_place && is_root ? input.data() : output.data();
  EXPECT_OK(c.broadcast(is_root ? input.data() : nullptr, target, s.count, s.type, root));
  EXPECT_EQ(test::compare_copied(s.type, s.op, root, target, s.count), "");
}

void check_all_gather(Communicator& c, const Shape& s) {
  const auto input = test::make_input(s.type, s.op, c.rank(), s.count);
  std::vector<std::byte> output(input.size() * static_cast<std::size_t>(c.size()));
  std::byte* own = output.data() + input.size() * static_cast<std::size_t>(c.rank());
  if (s.in_place && !input.empty()) std::memcpy(own, input.data(), input.size());
  EXPECT_OK(c.all_gather(s.in_place ? own : input.data(), output.data(), s.count, s.type));
  for (int from = 0; from < c.size(); ++from) {
    const std::byte* part = output.data() + input.size() * static_cast<std::size_t>(from);
    EXPECT_EQ(test::compare_copied(s.type, s.op, from, part, s.count), "");
  }
}

void check_reduce_scatter(Communicator& c, const Shape& s) {
  auto input = test::make_input(s.type, s.op, c.rank(), s.count * static_cast<std::size_t>(c.size()));
  std::vector<std::byte> output(s.count * size_of(s.type));
  const std::size_t first = s.count * static_cast<std::size_t>(c.rank());
  std::byte* target = s.in_place ? input.data() + first * size_of(s.type) : output.data();
  EXPECT_OK(c.reduce_scatter(input.data(), target, s.count, s.type, s.op));
  EXPECT_EQ(test::compare_reduced(s.type, s.op, c.size(), target, s.count, first), "");
}

void check_everything(Communicator& c, const Shape& shape) {
  check_all_reduce(c, shape);
  check_reduce(c, shape);
  check_broadcast(c, shape);
  check_all_gather(c, shape);
  check_reduce_scatter(c, shape);
  EXPECT_OK(c.barrier());
}

class Ranks : public testing::TestWithParam<int> {};

// All types with all operations; counts and place vary along.
TEST_P(Ranks, EveryTypeAndOperation) {
  constexpr std::size_t kCounts[] = {0, 1, 2, 3, 7, 64, 129, 1000, 5003};
  run_ranks(GetParam(), patient(), [&](Communicator& c) {
    std::size_t turn = static_cast<std::size_t>(GetParam());
    for (int type = 0; type < kDataTypeCount; ++type) {
      for (int op = 0; op < kReduceOpCount; ++op, ++turn) {
        check_everything(c, {static_cast<DataType>(type), static_cast<ReduceOp>(op), kCounts[turn % std::size(kCounts)],
                             turn % 2 == 0});
      }
    }
  });
}

TEST_P(Ranks, EveryTypeOperationCountAndPlaceLong) {
  run_ranks(GetParam(), patient(), [&](Communicator& c) {
    for (int type = 0; type < kDataTypeCount; ++type) {
      for (int op = 0; op < kReduceOpCount; ++op) {
        for (std::size_t count : {0u, 1u, 2u, 3u, 5u, 8u, 13u, 100u, 1023u, 1024u, 1025u, 20'011u}) {
          for (bool in_place : {false, true}) {
            check_everything(c, {static_cast<DataType>(type), static_cast<ReduceOp>(op), count, in_place});
          }
        }
      }
    }
  });
}

TEST_P(Ranks, LargeBuffers) {
  run_ranks(GetParam(), patient(), [](Communicator& c) {
    check_everything(c, {DataType::f32, ReduceOp::sum, 100'017, false});
    check_everything(c, {DataType::bf16, ReduceOp::average, 30'003, true});
  });
}

INSTANTIATE_TEST_SUITE_P(Communicator, Ranks, testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 9));

TEST(Communicator, ForcedAlgorithmsAndTransports) {
  for (const char* algorithm : {"ring", "pairwise", "direct", "recursive_doubling"}) {
    for (const char* transport : {"shm", "tcp"}) {
      CommunicatorOptions options = patient();
      options.algorithm = algorithm;
      options.transport = transport;
      run_ranks(3, options, [&](Communicator& c) {
        check_everything(c, {DataType::f32, ReduceOp::sum, 10'001, false});
        check_everything(c, {DataType::f16, ReduceOp::sum, 17, true});
        EXPECT_NE(c.explain_all_reduce(10, DataType::f32, ReduceOp::sum).find("because it was asked for"),
                  std::string::npos);
        EXPECT_NE(c.explain().find(transport), std::string::npos) << c.explain();
      });
    }
  }
}

TEST(Communicator, AsynchronousCallsRunInOrder) {
  run_ranks(4, patient(), [](Communicator& c) {
    constexpr std::size_t kCount = 3000;
    std::vector<std::vector<std::byte>> inputs, outputs;
    for (int i = 0; i < 20; ++i) {
      inputs.push_back(test::make_input(DataType::f32, ReduceOp::sum, c.rank(), kCount));
      outputs.emplace_back(kCount * 4);
    }
    std::vector<Work> works;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      works.push_back(c.all_reduce_async(inputs[i].data(), outputs[i].data(), kCount, DataType::f32, ReduceOp::sum));
      if (i == 10) check_all_reduce(c, {DataType::i32, ReduceOp::max, 99, false});  // Blocking in between.
    }
    EXPECT_OK(works[19].wait());
    for (Work& work : works) {
      EXPECT_TRUE(work.test());
      EXPECT_OK(work.wait());
    }
    for (const auto& output : outputs)
      EXPECT_EQ(test::compare_reduced(DataType::f32, ReduceOp::sum, 4, output.data(), kCount), "");
  });
}

// Nobody waits and nobody polls: the progress thread does it.
TEST(Communicator, DroppedWorksComplete) {
  constexpr std::size_t kCount = 50'000;
  // The last operation ends after the body does, so its buffers live here.
  std::vector<std::vector<std::byte>> inputs(3), outputs(3, std::vector<std::byte>(kCount * 4));
  run_ranks(3, patient(), [&](Communicator& c) {
    auto& input = inputs[static_cast<std::size_t>(c.rank())];
    auto& output = outputs[static_cast<std::size_t>(c.rank())];
    input = test::make_input(DataType::f32, ReduceOp::sum, c.rank(), kCount);
    for (int i = 0; i < 5; ++i) c.all_reduce_async(input.data(), output.data(), kCount, DataType::f32, ReduceOp::sum);
    Work last = c.barrier_async();
    while (!last.test()) std::this_thread::yield();
    EXPECT_EQ(test::compare_reduced(DataType::f32, ReduceOp::sum, 3, output.data(), kCount), "");
    c.all_reduce_async(input.data(), output.data(), kCount, DataType::f32, ReduceOp::sum);
  });  // Destroying the communicator completes the last one.
}

TEST(Communicator, WorksOutliveTheirCommunicator) {
  std::vector<Work> works(3);
  std::vector<std::vector<float>> data(3, std::vector<float>(1000, 1.0f));
  run_ranks(3, patient(), [&](Communicator& c) {
    auto& mine = data[static_cast<std::size_t>(c.rank())];
    works[static_cast<std::size_t>(c.rank())] =
        c.all_reduce_async(mine.data(), mine.data(), mine.size(), DataType::f32, ReduceOp::sum);
  });
  for (Work& work : works) EXPECT_OK(work.wait());
  for (const auto& mine : data) EXPECT_EQ(mine.back(), 3.0f);
}

TEST(Communicator, MessagesMatchByTagAndOrder) {
  run_ranks(4, patient(), [](Communicator& c) {
    const int next = (c.rank() + 1) % 4;
    const int previous = (c.rank() + 3) % 4;
    for (std::size_t size : {0u, 1u, 1000u, 100'000u}) {
      std::vector<std::int64_t> small(size, c.rank()), large(2 * size + 1, c.rank() + 10), in(size),
          in_large(2 * size + 1);
      Work first = c.send_async(small.data(), small.size(), DataType::i64, next, 1);
      Work second = c.send_async(large.data(), large.size(), DataType::i64, next, 2);
      EXPECT_OK(c.receive(in_large.data(), in_large.size(), DataType::i64, previous, 2));
      EXPECT_OK(c.barrier());  // Collectives do not mind messages on their way.
      EXPECT_OK(c.receive(in.data(), in.size(), DataType::i64, previous, 1));
      EXPECT_OK(first.wait());
      EXPECT_OK(second.wait());
      EXPECT_EQ(in, std::vector<std::int64_t>(size, previous));
      EXPECT_EQ(in_large, std::vector<std::int64_t>(2 * size + 1, previous + 10));
    }
  });
}

TEST(Communicator, MessagesToOneself) {
  for (int ranks : {1, 2}) {
    run_ranks(ranks, patient(), [](Communicator& c) {
      float out = 2.5f;
      float in = 0;
      Work receive = c.receive_async(&in, 1, DataType::f32, c.rank(), 3);
      EXPECT_OK(c.send(&out, 1, DataType::f32, c.rank(), 3));
      EXPECT_OK(receive.wait());
      EXPECT_EQ(in, 2.5f);
      if (c.size() == 1) {
        EXPECT_EQ(c.send(&out, 1, DataType::f32, 0).code(), StatusCode::invalid_argument);
      }
    });
  }
}

TEST(Communicator, Split) {
  run_ranks(6, patient(), [](Communicator& c) {
    auto half = c.split(c.rank() % 2, -c.rank());
    ASSERT_TRUE(half.is_ok()) << half.status().to_string();
    Communicator& h = *half.value();
    EXPECT_EQ(h.size(), 3);
    EXPECT_EQ(h.rank(), 2 - c.rank() / 2);  // The key turns the order around.
    EXPECT_EQ(h.world_rank(h.rank()), c.rank());
    check_everything(h, {DataType::f32, ReduceOp::sum, 333, false});
    check_everything(c, {DataType::f32, ReduceOp::sum, 333, false});
    auto pair = h.split(h.rank() == 0 ? -1 : 5, 0);
    ASSERT_TRUE(pair.is_ok());
    EXPECT_EQ(pair.value() == nullptr, h.rank() == 0);
    if (pair.value()) check_everything(*pair.value(), {DataType::i32, ReduceOp::min, 10, true});
    auto alone = c.split(c.rank(), 0);
    ASSERT_TRUE(alone.is_ok());
    check_everything(*alone.value(), {DataType::bf16, ReduceOp::average, 10, false});
  });
}

// Several communicators from several threads, each thread in another order of progress:
// none waits for another.
void cross(int iterations) {
  run_ranks(2, patient(), [&](Communicator& c) {
    std::vector<std::shared_ptr<Communicator>> all;
    for (int i = 0; i < 3; ++i) all.push_back(c.split(0, c.rank()).value());
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < all.size(); ++t) {
      // The second rank starts its threads the other way round.
      Communicator& mine = *all[c.rank() == 0 ? t : all.size() - 1 - t];
      threads.emplace_back([&mine, iterations] {
        std::int32_t value = 0;
        for (int i = 0; i < iterations; ++i) {
          const std::int32_t one = 1;
          const Status status = mine.all_reduce(&one, &value, 1, DataType::i32, ReduceOp::sum);
          ASSERT_TRUE(status.is_ok()) << status.to_string();
          ASSERT_EQ(value, 2);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
}
TEST(Communicator, ThreeAtOnceFromThreeThreads) {
  cross(300);
}
TEST(Communicator, ThreeAtOnceFromThreeThreadsLong) {
  cross(10'000);
}

// One thread, opposite orders: asynchronous calls of different communicators are independent.
TEST(Communicator, OppositeOrders) {
  run_ranks(2, patient(), [](Communicator& c) {
    auto a = c.split(0, c.rank()).value();
    auto b = c.split(0, c.rank()).value();
    for (int i = 0; i < 50; ++i) {
      std::int64_t x[2] = {1, 2};
      Communicator& first = c.rank() == 0 ? *a : *b;
      Communicator& second = c.rank() == 0 ? *b : *a;
      Work one = first.all_reduce_async(&x[0], &x[0], 1, DataType::i64, ReduceOp::sum);
      Work two = second.all_reduce_async(&x[1], &x[1], 1, DataType::i64, ReduceOp::sum);
      EXPECT_OK(one.wait());
      EXPECT_OK(two.wait());
      EXPECT_EQ(x[0] + x[1], 6);
    }
  });
}

TEST(Communicator, RefusesBadArgumentsAndLives) {
  run_ranks(2, patient(), [](Communicator& c) {
    float data[8] = {};
    EXPECT_EQ(c.all_reduce(nullptr, data, 1, DataType::f32, ReduceOp::sum).code(), StatusCode::invalid_argument);
    EXPECT_EQ(c.broadcast(data, data, 1, DataType::f32, 2).code(), StatusCode::invalid_argument);
    EXPECT_EQ(c.all_reduce(data, data + 1, 4, DataType::f32, ReduceOp::sum).code(), StatusCode::invalid_argument);
    EXPECT_EQ(c.all_reduce_async(nullptr, data, 1, DataType::f32, ReduceOp::sum).wait().code(),
              StatusCode::invalid_argument);
    EXPECT_EQ(c.send(data, 1, DataType::f32, 7).code(), StatusCode::invalid_argument);
    check_everything(c, {DataType::f32, ReduceOp::sum, 10, false});
  });
}

TEST(Communicator, RefusesBadOptions) {
  auto worlds = make_local_worlds(1);
  ASSERT_TRUE(worlds.is_ok());
  CommunicatorOptions options;
  options.timeout_ms = -1;
  EXPECT_EQ(Communicator::create(worlds.value()[0], options).status().code(), StatusCode::invalid_argument);
  options.timeout_ms = 0;
  options.algorithm = "rong";
  EXPECT_EQ(Communicator::create(worlds.value()[0], options).status().code(), StatusCode::invalid_argument);
  EXPECT_EQ(Communicator::create(nullptr, {}).status().code(), StatusCode::invalid_argument);
}

}  // namespace
}  // namespace trireme
