#include "runtime/transport/api/fabric.h"

#include <thread>
#include <tuple>

#include <gtest/gtest.h>

#include "runtime/rendezvous/api/local_worlds.h"
#include "runtime/transport/table/api/transport_table.h"

namespace trireme {
namespace {

using Fabrics = std::vector<Result<std::unique_ptr<Fabric>>>;

// Creates one fabric per rank, at once; forced[r] is what rank r forces.
Fabrics create(const std::vector<std::shared_ptr<World>>& worlds, const std::vector<std::string>& forced,
               std::span<const TransportFactory> table = transport_table()) {
  Fabrics fabrics;
  for (std::size_t i = 0; i < worlds.size(); ++i) fabrics.emplace_back(aborted("not created"));
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < worlds.size(); ++r) {
    threads.emplace_back([&, r] {
      FabricOptions options;
      options.transports = table;
      options.forced_transport = forced.empty() ? "" : forced[r];
      fabrics[r] = Fabric::create(worlds[r], options);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return fabrics;
}

std::vector<std::shared_ptr<World>> worlds_of(int size, int ranks_per_host = 0) {
  LocalWorldsOptions options;
  options.ranks_per_host = ranks_per_host;
  auto worlds = make_local_worlds(size, options);
  EXPECT_TRUE(worlds.is_ok()) << worlds.status().to_string();
  return std::move(worlds).value();
}

TEST(Fabric, SharedMemoryWithinAHostAndTcpAcross) {
  const auto worlds = worlds_of(4, 2);
  const Fabrics fabrics = create(worlds, {});
  for (int r = 0; r < 4; ++r) {
    const auto& fabric = fabrics[static_cast<std::size_t>(r)];
    ASSERT_TRUE(fabric.is_ok()) << fabric.status().to_string();
    for (int peer = 0; peer < 4; ++peer) {
      if (peer == r) continue;
      EXPECT_EQ((*fabric)->choice(peer).transport, peer / 2 == r / 2 ? "shm" : "tcp") << (*fabric)->explain(peer);
    }
  }
  const std::string text = (*fabrics[0])->explain(2);
  EXPECT_NE(text.find("hosts differ"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 2"), std::string::npos) << text;
}

TEST(Fabric, SeveralFabricsOfOneWorldDoNotMixTheirExchanges) {
  const auto worlds = worlds_of(2);
  const Fabrics first = create(worlds, {"shm", "shm"});
  const Fabrics second = create(worlds, {"tcp", "tcp"});
  ASSERT_TRUE(first[0].is_ok() && first[1].is_ok() && second[0].is_ok() && second[1].is_ok());
  EXPECT_EQ((*first[0])->choice(1).transport, "shm");
  EXPECT_EQ((*second[1])->choice(0).transport, "tcp");
}

TEST(Fabric, DifferentForcedTransportsAreNamedOnBothRanks) {
  const auto worlds = worlds_of(2);
  for (const auto& fabric : create(worlds, {"shm", "tcp"})) {
    ASSERT_FALSE(fabric.is_ok());
    EXPECT_EQ(fabric.status().code(), StatusCode::mismatch);
    EXPECT_NE(fabric.status().message().find("shm"), std::string::npos) << fabric.status().to_string();
    EXPECT_NE(fabric.status().message().find("tcp"), std::string::npos) << fabric.status().to_string();
  }
}

TEST(Fabric, AnUnknownForcedTransportIsRefusedWithTheKnownOnes) {
  const auto worlds = worlds_of(2);
  for (const auto& fabric : create(worlds, {"pigeon", "pigeon"})) {
    ASSERT_FALSE(fabric.is_ok());
    EXPECT_EQ(fabric.status().code(), StatusCode::invalid_argument);
    EXPECT_NE(fabric.status().message().find("shm, cuda_ipc, verbs, tcp"), std::string::npos) << fabric.status().to_string();
  }
}

TEST(Fabric, NoPathNamesBothRanksAndEveryReason) {
  const auto worlds = worlds_of(2, 1);
  for (const auto& fabric : create(worlds, {}, transport_table().first(1))) {
    ASSERT_FALSE(fabric.is_ok());
    EXPECT_EQ(fabric.status().code(), StatusCode::unavailable);
    for (const char* part : {"rank 0", "rank 1", "shm: hosts differ"}) {
      EXPECT_NE(fabric.status().message().find(part), std::string::npos) << fabric.status().to_string();
    }
  }
}

Result<std::unique_ptr<Transport>> never_created(const TransportEnvironment&) {
  return unavailable("no such device here");
}

TEST(Fabric, ATransportThatCannotBeCreatedIsACandidateWithAReason) {
  const auto worlds = worlds_of(2);
  const std::vector<TransportFactory> table = {{"broken", never_created}, transport_table()[0]};
  const Fabrics fabrics = create(worlds, {}, table);
  ASSERT_TRUE(fabrics[0].is_ok()) << fabrics[0].status().to_string();
  EXPECT_EQ((*fabrics[0])->choice(1).transport, "shm");
  EXPECT_NE((*fabrics[0])->explain(1).find("no such device here"), std::string::npos) << (*fabrics[0])->explain(1);
}

TEST(Fabric, ARankAloneNeedsNoTransport) {
  const auto worlds = worlds_of(1);
  const Fabrics fabrics = create(worlds, {});
  ASSERT_TRUE(fabrics[0].is_ok()) << fabrics[0].status().to_string();
  Doorbell& bell = (*fabrics[0])->doorbell();
  const std::uint32_t seen = bell.value();
  bell.ring();
  EXPECT_TRUE(bell.wait(seen, Deadline::after_ms(0)));
  EXPECT_FALSE((*fabrics[0])->open_channel(0, 1).is_ok());
}

// Ranks of a host give each other memory; what one writes, the other reads, and can wake it.
TEST(Fabric, RanksOfAHostMapEachOthersMemory) {
  const auto worlds = worlds_of(3, 3);
  const Fabrics fabrics = create(worlds, {});
  constexpr std::size_t kOffset = 128;
  std::vector<std::shared_ptr<SharedHeap>> heaps;
  for (std::size_t r = 0; r < 3; ++r) {
    heaps.push_back(SharedHeap::create("trireme-test", 4096 * (r + 1)).value());
    heaps[r]->base()[kOffset] = static_cast<std::byte>(10 + r);
  }
  for (const std::uint64_t context : {2U, 4U, 2U}) {  // The same context again is another exchange.
    for (int giver = 0; giver < 3; ++giver) {
      for (int peer = 0; peer < giver; ++peer) {
        const auto& here = fabrics[static_cast<std::size_t>(giver)].value();
        const auto& there = fabrics[static_cast<std::size_t>(peer)].value();
        ASSERT_TRUE(here->shares_memory(peer));
        const auto get = [&](const std::unique_ptr<Fabric>& from, int self, int other) {
          auto memory = from->exchange_memory(other, context, *heaps[static_cast<std::size_t>(self)], kOffset);
          EXPECT_TRUE(memory.is_ok()) << memory.status().to_string();
          return memory.value();
        };
        const auto theirs = get(here, giver, peer);
        const auto ours = get(there, peer, giver);
        for (const auto& [fabric, memory, rank] :
             {std::tuple(here.get(), theirs, peer), std::tuple(there.get(), ours, giver)}) {
          const Deadline patience = Deadline::after_ms(60'000);
          for (std::uint32_t seen = fabric->doorbell().value(); !memory->ready(); seen = fabric->doorbell().value()) {
            ASSERT_TRUE(fabric->doorbell().wait(seen, patience));
          }
          EXPECT_EQ(memory->base()[0], static_cast<std::byte>(10 + rank));
          EXPECT_EQ(memory->bytes(), 4096U * (static_cast<unsigned>(rank) + 1) - kOffset);
          const std::uint32_t before = fabrics[static_cast<std::size_t>(rank)].value()->doorbell().value();
          memory->ring();
          EXPECT_NE(fabrics[static_cast<std::size_t>(rank)].value()->doorbell().value(), before);
        }
      }
    }
  }
  const auto apart = worlds_of(2, 1);
  const Fabrics strangers = create(apart, {});
  EXPECT_FALSE(strangers[0].value()->shares_memory(1));
}

TEST(Fabric, AFailureOfTheWorldRingsAndBreaksTheCulpritsChannelsOnly) {
  const auto worlds = worlds_of(3);
  const Fabrics fabrics = create(worlds, {});
  auto to_culprit = (*fabrics[0])->open_channel(1, 1);
  auto to_other = (*fabrics[0])->open_channel(2, 1);
  ASSERT_TRUE(to_culprit.is_ok() && to_other.is_ok());
  Doorbell& bell = (*fabrics[0])->doorbell();
  worlds[2]->report_failure({.status = peer_dead("rank 1 fell overboard"), .culprit_rank = 1});
  for (;;) {
    const std::uint32_t seen = bell.value();
    if (!(*to_culprit)->status().is_ok()) break;
    ASSERT_TRUE(bell.wait(seen, Deadline::after_ms(60'000)));
  }
  EXPECT_EQ((*to_culprit)->status().code(), StatusCode::peer_dead);
  EXPECT_NE((*to_culprit)->status().message().find("overboard"), std::string::npos);
  EXPECT_TRUE((*to_other)->status().is_ok());
}

}  // namespace
}  // namespace trireme
