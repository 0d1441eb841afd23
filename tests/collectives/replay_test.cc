// Replays of real plans: against closed forms of the literature, against full expansion,
// and what contention does.
#include "collectives/plan/api/replay.h"

#include <gtest/gtest.h>

#include <cmath>

#include "collectives/algorithms/algorithm.h"

namespace trireme::plan {
namespace {

Request request_for(Collective collective, int ranks, std::int64_t count, bool wide = false) {
  Request request;
  request.collective = collective;
  request.ranks = ranks;
  request.count = count;
  request.element_bytes = wide ? 2 : 4;
  request.wide = wide;
  request.shared_memory = request.windows = ranks <= 64;
  return request;
}

Replay replayed(const std::string& algorithm, const Request& request, const NetworkModel& network,
                bool use_symmetry = true) {
  const Algorithm* found = find_algorithm(algorithm);
  EXPECT_NE(found, nullptr) << algorithm;
  const auto result =
      replay(request, [&](int rank) { return found->program(request, rank); }, network, {use_symmetry, 0});
  EXPECT_TRUE(result.is_ok()) << result.status().to_string();
  return result.is_ok() ? result.value() : Replay();
}

DescribedNetwork rails(int ranks_per_host, int hosts_per_pod) {
  const int pod = ranks_per_host * hosts_per_pod;
  return {ranks_per_host,
          0,
          1e12,
          {{"nvlink", LinkKind::nvlink, ranks_per_host, 1, 1, 400e9, 1, 0},
           {"leaf", LinkKind::network, pod, ranks_per_host, 1, 50e9, 3, 0},
           {"spine", LinkKind::network, 0, 1, hosts_per_pod, hosts_per_pod * 25e9, 5, 0}}};
}

// Thakur, Rabenseifner, Gropp 2005, with alpha, beta, gamma.
TEST(Replay, RingMeetsItsClosedForm) {
  const Network uniform{3e-6, 2e-10, 1e-10};
  for (int ranks : {2, 3, 8, 64, 200}) {
    for (std::int64_t part : {1, 1000, 100'000}) {
      const Request request = request_for(Collective::all_reduce, ranks, part * ranks);
      const double bytes = 4.0 * static_cast<double>(part);
      const double expected = 2 * (ranks - 1) * (3e-6 + bytes * 2e-10) + (ranks - 1) * bytes * 1e-10;
      const Replay result = replayed("ring", request, *NetworkModel::uniform(ranks, uniform));
      EXPECT_NEAR(result.seconds, expected, 0.01 * expected) << ranks << " ranks, " << part;
      EXPECT_EQ(result.classes, 1);
    }
  }
}

TEST(Replay, RecursiveDoublingMeetsItsClosedForm) {
  for (int ranks : {4, 16, 256}) {
    const Request request = request_for(Collective::all_reduce, ranks, 50'000);
    const double steps = std::log2(ranks);
    const double expected = steps * (3e-6 + 200e3 * (2e-10 + 1e-10));
    const Replay result = replayed("recursive_doubling", request, *NetworkModel::uniform(ranks, {3e-6, 2e-10, 1e-10}));
    EXPECT_NEAR(result.seconds, expected, 0.01 * expected) << ranks;
  }
}

// Rabenseifner: a reduce-scatter by halving, an all-gather by doubling, for powers of two.
TEST(Replay, RecursiveHalvingMeetsItsClosedForm) {
  for (int ranks : {2, 8, 64, 256}) {
    for (std::int64_t part : {1, 1000, 20'000}) {
      const Request request = request_for(Collective::all_reduce, ranks, part * ranks);
      const double bytes = 4.0 * static_cast<double>(part) * (ranks - 1);  // In each direction of each half.
      const double expected = 2 * std::log2(ranks) * 3e-6 + 2 * bytes * 2e-10 + bytes * 1e-10;
      const Replay result = replayed("recursive_halving", request, *NetworkModel::uniform(ranks, {3e-6, 2e-10, 1e-10}));
      EXPECT_NEAR(result.seconds, expected, 0.01 * expected) << ranks << " ranks, " << part;
    }
  }
}

// A message small enough for one chunk goes down log2 P levels. The root's children are
// served one after the other, the one with the largest subtree first.
TEST(Replay, BinomialTreeMeetsItsClosedForm) {
  for (int ranks : {2, 8, 64, 512}) {
    const Request request = request_for(Collective::broadcast, ranks, 1000);
    const double expected = std::log2(ranks) * (3e-6 + 4000 * 2e-10);
    const Replay result = replayed("binomial_tree", request, *NetworkModel::uniform(ranks, {3e-6, 2e-10, 0}));
    EXPECT_NEAR(result.seconds, expected, 0.01 * expected) << ranks;
  }
}

TEST(Replay, DirectIsOneLatencyAndAllBytes) {
  const int ranks = 8;
  const Request request = request_for(Collective::all_reduce, ranks, 10'000);
  const Replay result = replayed("direct", request, *NetworkModel::uniform(ranks, {3e-6, 2e-10, 0}));
  EXPECT_NEAR(result.seconds, 3e-6 + (ranks - 1) * 40e3 * 2e-10, 1e-9);
}

// Where one link class joins all, replay and the algorithms' own cost formulas agree.
TEST(Replay, AgreesWithTheAlgorithmsOwnCosts) {
  const Network uniform{2e-6, 1e-10, 5e-11};
  for (const Algorithm& algorithm : algorithms()) {
    for (int i = 0; i < kCollectiveCount; ++i) {
      const Request request = request_for(static_cast<Collective>(i), 16, 16 * 1024);
      // A root's own link is shared by all that send to it, which cost() leaves out.
      if (!algorithm.supports(request) || is_rooted(request.collective)) continue;
      const Replay result = replayed(std::string(algorithm.name), request, *NetworkModel::uniform(16, uniform));
      const double cost = algorithm.cost(request, uniform);
      // All ranks fetch and store at once, and queue at each other's links one after the other.
      const double most = algorithm.name == "slices" ? 2 : 1.6;
      EXPECT_LT(result.seconds, most * cost) << algorithm.name << " " << to_string(request.collective);
      EXPECT_GT(result.seconds, 0.4 * cost) << algorithm.name << " " << to_string(request.collective);
    }
  }
}

// Representatives give the very time that all ranks give, up to 1,024 of them.
TEST(Replay, SymmetryIsFullExpansion) {
  for (int ranks : {8, 16, 64, 128, 256, 1024}) {
    const auto network = make_described_model(rails(8, 2), ranks);
    for (const Algorithm& algorithm : algorithms()) {
      for (int i = 0; i < kCollectiveCount; ++i) {
        const Request request = request_for(static_cast<Collective>(i), ranks, 1024 * ranks);
        if (!algorithm.supports(request)) continue;
        if (ranks == 1024 && std::string(algorithm.name) != "ring") continue;  // A million rounds are enough.
        if (ranks == 1024 && request.collective != Collective::all_reduce) continue;
        const std::string name(algorithm.name);
        const Replay all = replayed(name, request, *network, false);
        const Replay few = replayed(name, request, *network, true);
        EXPECT_EQ(all.classes, ranks);
        EXPECT_NEAR(few.seconds, all.seconds, 1e-9 * all.seconds) << name << " " << ranks;
        EXPECT_EQ(few.bottleneck, all.bottleneck) << name << " " << ranks;
        if (name == "ring" && ranks > 16) {
          EXPECT_EQ(few.classes, 16);
        }
      }
    }
  }
}

// Two ranks behind one card share it; so do the ranks of a pod behind its uplink.
TEST(Replay, SharedLinksAreShared) {
  DescribedNetwork cards = {
      4,
      0,
      0,
      {{"memory", LinkKind::memory, 4, 1, 1, 100e9, 0.1, 0}, {"card", LinkKind::network, 0, 1, 4, 10e9, 1, 0}}};
  const Request request = request_for(Collective::all_gather, 8, 1'000'000);
  // Pairwise: all four ranks of a host send 4 MB to the other host in four of seven steps.
  const Replay shared = replayed("pairwise", request, *make_described_model(cards, 8));
  EXPECT_EQ(shared.bottleneck, "card");
  const double card_time = 16 * 4e6 / 10e9;  // 4 senders x 4 receivers.
  EXPECT_GE(shared.seconds, card_time);
  EXPECT_LE(shared.seconds, 1.5 * card_time);
  cards.levels[1].shared_by = 1;
  const Replay alone = replayed("pairwise", request, *make_described_model(cards, 8));
  EXPECT_LT(alone.seconds, 0.5 * shared.seconds);
}

TEST(Replay, ABlocksLimitHoldsAllItsMessages) {
  DescribedNetwork memory = {4, 0, 0, {{"memory", LinkKind::memory, 0, 1, 1, 100e9, 0.1, 20e9}}};
  const Request request = request_for(Collective::all_gather, 4, 1'000'000);
  const Replay result = replayed("ring", request, *make_described_model(memory, 4));
  EXPECT_EQ(result.bottleneck, "memory");
  EXPECT_EQ(result.classes, 4) << "ranks that share a resource do not stand for each other";
  EXPECT_NEAR(result.seconds, 12 * 4e6 / 20e9, 0.05 * result.seconds);
}

TEST(Replay, NamesTheSlowLink) {
  Topology topology;
  const auto add = [&](int parent, VertexKind kind, const std::string& name, int number) {
    Vertex vertex{static_cast<int>(topology.vertices.size()), parent, kind, name, number, 0, ""};
    topology.vertices.push_back(vertex);
    return vertex.id;
  };
  const int fabric = add(-1, VertexKind::network_switch, "ethernet", -1);
  for (int rank = 0; rank < 4; ++rank) {
    const int host = add(-1, VertexKind::host, "node" + std::to_string(rank), -1);
    add(host, VertexKind::rank, "rank " + std::to_string(rank), rank);
    Link link;
    link.a = host;
    link.b = fabric;
    link.kind = LinkKind::network;
    link.bytes_per_second = rank == 2 ? 1e8 : 1e9;  // One host has a slow cable.
    link.latency_us = 10;
    link.source = FigureSource::reported;
    topology.links.push_back(link);
  }
  const auto network = NetworkModel::make(topology, 4);
  ASSERT_TRUE(network.is_ok()) << network.status().to_string();
  const Request request = request_for(Collective::all_reduce, 4, 1'000'000);
  const Replay result = replayed("ring", request, *network.value());
  EXPECT_NE(result.bottleneck.find("node2"), std::string::npos) << result.bottleneck;
  EXPECT_NEAR(result.seconds, 6 * 1e6 / 1e8, 0.15 * result.seconds);
  const auto too_many = NetworkModel::make(topology, 5);
  ASSERT_FALSE(too_many.is_ok());
  EXPECT_NE(too_many.status().message().find("has 4 ranks"), std::string::npos) << too_many.status().message();
}

TEST(Replay, RefusesMoreRoundsThanAllowed) {
  const Request request = request_for(Collective::all_reduce, 64, 64);
  const auto network = NetworkModel::uniform(64, {});
  const auto result =
      replay(request, [&](int rank) { return find_algorithm("ring")->program(request, rank); }, *network, {false, 100});
  ASSERT_FALSE(result.is_ok());
  EXPECT_EQ(result.status().code(), StatusCode::resource_exhausted);
}

TEST(Replay, PathsFollowTheLevels) {
  const auto network = make_described_model(rails(8, 4), 64);
  const auto classes_of = [&](int from, int to) {
    const Path path = network->path(from, to);
    std::string text;
    for (int i = 0; i < path.count; ++i) text += network->resource(path.hops[static_cast<std::size_t>(i)]).link + " ";
    return text;
  };
  EXPECT_EQ(classes_of(0, 7), "nvlink nvlink ");
  EXPECT_EQ(classes_of(3, 11), "leaf leaf ");              // Same rail, same pod.
  EXPECT_EQ(classes_of(3, 12), "leaf spine spine leaf ");  // Other rail.
  EXPECT_EQ(classes_of(3, 35), "leaf spine spine leaf ");  // Same rail, other pod.
  EXPECT_EQ(network->resource(network->path(3, 35).hops[1]).which, "from rank 3 and those that share its link");
  EXPECT_DOUBLE_EQ(network->path(3, 35).latency_s, 5e-6);
  EXPECT_EQ(network->periods(), (std::vector<int>{32, 64}));
}

}  // namespace
}  // namespace trireme::plan
