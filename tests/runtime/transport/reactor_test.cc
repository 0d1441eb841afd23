#include "runtime/transport/api/reactor.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <mutex>
#include <vector>

#include <gtest/gtest.h>

namespace trireme {
namespace {

std::shared_ptr<Reactor> start() {
  auto reactor = Reactor::start();
  EXPECT_TRUE(reactor.is_ok()) << reactor.status().to_string();
  return *reactor;
}

struct Pipe {
  Pipe() { EXPECT_EQ(pipe(ends), 0); }
  ~Pipe() {
    close(ends[0]);
    close(ends[1]);
  }
  void write_byte() const { EXPECT_EQ(write(ends[1], "x", 1), 1); }
  int ends[2];
};

TEST(Reactor, CallsTheHandlerOncePerArming) {
  const auto reactor = start();
  const Pipe pipe;
  std::atomic<int> calls{0};
  std::vector<std::promise<void>> called(2);
  const auto token = reactor->watch(pipe.ends[0], EPOLLIN, [&](Reactor::Token, std::uint32_t events) {
    EXPECT_NE(events & EPOLLIN, 0u);
    called[static_cast<std::size_t>(calls++)].set_value();
  });
  ASSERT_TRUE(token.is_ok());
  pipe.write_byte();
  called[0].get_future().wait();
  pipe.write_byte();  // Not armed: no call.
  std::promise<void> later;
  reactor->run_soon([&] { later.set_value(); });
  later.get_future().wait();
  EXPECT_EQ(calls, 1);
  reactor->arm(*token, EPOLLIN);  // Readable already: fires at once.
  called[1].get_future().wait();
  reactor->stop();
  EXPECT_EQ(calls, 2);
}

TEST(Reactor, ForgottenDescriptorsCallNobodyAndReleaseTheirHandler) {
  const auto reactor = start();
  const Pipe pipe;
  auto held = std::make_shared<int>(1);
  const auto token = reactor->watch(pipe.ends[0], EPOLLIN, [held](Reactor::Token, std::uint32_t) { FAIL(); });
  reactor->forget(*token);
  EXPECT_EQ(held.use_count(), 1);
  pipe.write_byte();
  reactor->arm(*token, EPOLLIN);
  reactor->forget(*token);  // Twice is harmless.
  std::promise<void> later;
  reactor->run_soon([&] { later.set_value(); });
  later.get_future().wait();
}

TEST(Reactor, RunsTimersInTheOrderOfTheirTimes) {
  const auto reactor = start();
  std::mutex mutex;
  std::vector<int> order;
  std::promise<void> done;
  const auto note = [&](int i) {
    const std::lock_guard lock(mutex);
    order.push_back(i);
    if (order.size() == 3) done.set_value();
  };
  reactor->run_soon([&] {  // From the thread itself, so that none runs before all are set.
    reactor->run_at(Deadline::after_ms(20), [&] { note(2); });
    reactor->run_at(Deadline::after_ms(10), [&] { note(1); });
    reactor->run_soon([&] { note(0); });
  });
  done.get_future().wait();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
}

TEST(Reactor, StopDropsWhatItHoldsAndRefusesMore) {
  const auto reactor = start();
  const Pipe pipe;
  auto held = std::make_shared<int>(1);
  ASSERT_TRUE(reactor->watch(pipe.ends[0], EPOLLIN, [held](Reactor::Token, std::uint32_t) {}).is_ok());
  reactor->run_at(Deadline::after_ms(3'600'000), [held] {});
  reactor->stop();
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_EQ(reactor->watch(pipe.ends[1], EPOLLOUT, [held](Reactor::Token, std::uint32_t) {}).status().code(),
            StatusCode::aborted);
  reactor->run_soon([held] {});
  EXPECT_EQ(held.use_count(), 1);
}

TEST(Reactor, ReportsABadDescriptor) {
  const auto reactor = start();
  EXPECT_FALSE(reactor->watch(-1, EPOLLIN, [](Reactor::Token, std::uint32_t) {}).is_ok());
}

}  // namespace
}  // namespace trireme
