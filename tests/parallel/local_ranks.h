// Runs a body once for each rank, ranks being threads of this process.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include <trireme/collectives/communicator.h>

#include "runtime/rendezvous/api/local_worlds.h"

namespace trireme::test {

// body(rank, communicator): the communicator is nullptr when there is one rank.
template <typename Body>
void run_ranks(int ranks, const Body& body) {
  if (ranks == 1) {
    body(0, static_cast<Communicator*>(nullptr));
    return;
  }
  Result<std::vector<std::shared_ptr<World>>> worlds = make_local_worlds(ranks);
  ASSERT_TRUE(worlds.is_ok()) << worlds.status().to_string();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      Result<std::shared_ptr<Communicator>> communicator =
          Communicator::create((*worlds)[static_cast<std::size_t>(rank)]);
      ASSERT_TRUE(communicator.is_ok()) << communicator.status().to_string();
      body(rank, communicator->get());
      EXPECT_TRUE((*communicator)->barrier().is_ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace trireme::test
