// NetworkModel: what a message between two ranks passes, for replaying plans.
//
// Made from a topology: from its description by classes (runtime/topology's network.h)
// when it has one, else from its graph of vertices and links, where ranks are the
// vertices of kind rank, or the GPUs. Each direction of each link is one resource that
// messages share; a measured link between two ranks is theirs alone (and, on one host,
// shares the host's memory when that was measured too).
// Thread safety: const methods from any thread, but for a graph's path(), which caches.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <trireme/base/status.h>
#include <trireme/topology/topology.h>

#include "collectives/plan/api/simulate.h"

namespace trireme::plan {

// The resources a message takes one after the other, and its latency end to end.
struct Path {
  static constexpr int kMostHops = 16;
  std::array<std::uint32_t, kMostHops> hops{};
  int count = 0;
  double latency_s = 0;
};

struct Resource {
  double seconds_per_byte = 0;
  std::string link;   // Its class: "nvlink", "leaf", "eth0 > ethernet".
  std::string which;  // Which one of the class: "up, rank 3".
};

class NetworkModel {
 public:
  // Errors: invalid_argument when the topology has fewer ranks than asked for, or no ranks
  // at all, saying what to add; unavailable when two ranks are not joined.
  static Result<std::unique_ptr<NetworkModel>> make(const Topology& topology, int ranks);
  // Every rank has a duplex link of 1 / beta to every other, through one switch.
  static std::unique_ptr<NetworkModel> uniform(int ranks, const Network& network);
  virtual ~NetworkModel() = default;

  int ranks() const { return ranks_; }
  // When each host has equally many ranks with consecutive numbers; 0: not so.
  int ranks_per_host() const { return ranks_per_host_; }
  double message_s() const { return message_s_; }
  double work_s_per_byte() const { return work_s_per_byte_; }
  virtual std::size_t resource_count() const = 0;
  virtual double seconds_per_byte(std::uint32_t resource) const = 0;
  virtual Resource resource(std::uint32_t resource) const = 0;
  // REQUIRES: two different ranks.
  virtual Path path(int from, int to) const = 0;

  // Shifts s that divide ranks() and map the network to itself: what joins ranks a and b
  // joins a + s and b + s just so, and no resource is passed by a rank and its image. In
  // ascending order; the last is ranks().
  virtual std::vector<int> periods() const { return {ranks_}; }
  // The resource of ranks 0 .. period-1 that `resource` is an image of.
  virtual std::uint32_t folded(std::uint32_t resource, int /*period*/) const { return resource; }

 protected:
  int ranks_ = 0;
  int ranks_per_host_ = 0;
  double message_s_ = 0;
  double work_s_per_byte_ = 0;
};

// Implementations.
std::unique_ptr<NetworkModel> make_described_model(const DescribedNetwork& network, int ranks);
Result<std::unique_ptr<NetworkModel>> make_graph_model(const Topology& topology, int ranks);

}  // namespace trireme::plan
