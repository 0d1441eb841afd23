// Ranks as threads of the test: each with its own World and communicator.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include <trireme/collectives/communicator.h>

#include "runtime/rendezvous/api/local_worlds.h"

#define EXPECT_OK(expression)                            \
  do {                                                   \
    const Status status_ = (expression);                 \
    EXPECT_TRUE(status_.is_ok()) << status_.to_string(); \
  } while (false)

namespace trireme::test {

// Runs `body(communicator)` on `ranks` threads, each with a communicator of all.
inline void run_ranks(int ranks, const CommunicatorOptions& options, const std::function<void(Communicator&)>& body) {
  auto worlds = make_local_worlds(ranks);
  ASSERT_TRUE(worlds.is_ok()) << worlds.status().to_string();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    // The World goes with its thread, so that ranks leave in any order.
    threads.emplace_back([&, world = std::move(worlds.value()[static_cast<std::size_t>(rank)])]() mutable {
      auto communicator = Communicator::create(std::move(world), options);
      ASSERT_TRUE(communicator.is_ok()) << communicator.status().to_string();
      body(*communicator.value());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

inline CommunicatorOptions patient() {
  CommunicatorOptions options;
  options.timeout_ms = 60'000;
  return options;
}

}  // namespace trireme::test
