// The model of a network described by classes of links: everything is arithmetic on rank
// numbers, so 65,536 ranks cost a few numbers.
#include <algorithm>

#include <fmt/core.h>

#include "collectives/plan/api/network_model.h"

namespace trireme::plan {
namespace {

constexpr double kMicrosecond = 1e-6;

// A level with its numbers worked out for a given number of ranks.
struct Level {
  NetworkLevel described;
  int below = -1;      // The network level below in its chain.
  int link_rails = 1;  // By which rails its links are shared.
  int links = 0;       // Per rail.
  int blocks = 1;
  std::uint32_t up = 0;  // First resource of each group.
  std::uint32_t down = 0;
  std::uint32_t block = 0;
  bool joins_all(int ranks) const {
    return described.rails == 1 && (described.reaches == 0 || described.reaches >= ranks);
  }
};

class DescribedModel final : public NetworkModel {
 public:
  DescribedModel(const DescribedNetwork& network, int ranks) {
    ranks_ = ranks;
    ranks_per_host_ = network.ranks_per_host;
    message_s_ = network.message_us * kMicrosecond;
    work_s_per_byte_ = network.work_bytes_per_second > 0 ? 1 / network.work_bytes_per_second : 0;
    int chain = -1;
    for (const NetworkLevel& described : network.levels) {
      add_level(described, chain);
      if (described.kind == LinkKind::network) chain = static_cast<int>(levels_.size()) - 1;
      if (levels_.back().joins_all(ranks)) break;  // No message goes further up.
    }
  }

  std::size_t resource_count() const override { return count_; }
  double seconds_per_byte(std::uint32_t resource) const override {
    const Level& level = level_of(resource);
    const bool is_block = level.described.block_bytes_per_second > 0 && resource >= level.block;
    return 1 / (is_block ? level.described.block_bytes_per_second : level.described.bytes_per_second);
  }
  Resource resource(std::uint32_t id) const override;
  Path path(int from, int to) const override;
  std::vector<int> periods() const override;
  std::uint32_t folded(std::uint32_t resource, int period) const override;

 private:
  void add_level(const NetworkLevel& described, int chain) {
    Level level;
    level.described = described;
    level.below = described.kind == LinkKind::network ? chain : -1;
    level.link_rails =
        level.below >= 0 ? levels_[static_cast<std::size_t>(level.below)].described.rails : described.rails;
    level.links = (ranks_per_rail(level.link_rails) + described.shared_by - 1) / described.shared_by;
    level.blocks = described.reaches == 0 ? 1 : (ranks_ + described.reaches - 1) / described.reaches;
    const auto links = static_cast<std::uint32_t>(level.links * level.link_rails);
    level.up = count_;
    level.down = count_ + links;
    level.block = count_ + 2 * links;
    count_ += 2 * links + (described.block_bytes_per_second > 0 ? static_cast<std::uint32_t>(level.blocks) : 0);
    levels_.push_back(level);
  }

  // The last host may be a part only: every rail of it counts.
  int ranks_per_rail(int rails) const {
    const int hosts = (ranks_ + ranks_per_host_ - 1) / ranks_per_host_;
    return rails == 1 ? ranks_ : hosts * (ranks_per_host_ / rails);
  }
  int rail(int rank, int rails) const { return (rank % ranks_per_host_) * rails / ranks_per_host_; }
  int place_in_rail(int rank, int rails) const {
    if (rails == 1) return rank;
    const int width = ranks_per_host_ / rails;
    return rank / ranks_per_host_ * width + rank % ranks_per_host_ % width;
  }
  std::uint32_t link_of(const Level& level, int rank) const {
    return static_cast<std::uint32_t>(rail(rank, level.link_rails) * level.links +
                                      place_in_rail(rank, level.link_rails) / level.described.shared_by);
  }
  int block_of(const Level& level, int rank) const {
    return level.described.reaches == 0 ? 0 : rank / level.described.reaches;
  }
  bool joins(const Level& level, int a, int b) const {
    return block_of(level, a) == block_of(level, b) && rail(a, level.described.rails) == rail(b, level.described.rails);
  }
  const Level& level_of(std::uint32_t resource) const {
    std::size_t index = levels_.size() - 1;
    while (resource < levels_[index].up) --index;
    return levels_[index];
  }
  bool maps_to_itself(const Level& level, int shift) const;

  std::vector<Level> levels_;
  std::uint32_t count_ = 0;
};

Path DescribedModel::path(int from, int to) const {
  std::size_t at = 0;
  while (!joins(levels_[at], from, to)) ++at;  // The last level joins all.
  const Level& top = levels_[at];
  Path path;
  path.latency_s = top.described.latency_us * kMicrosecond;
  const auto add = [&](std::uint32_t resource) { path.hops[static_cast<std::size_t>(path.count++)] = resource; };
  std::array<int, Path::kMostHops / 2> chain{};
  std::size_t depth = 0;
  for (int level = static_cast<int>(at); level >= 0 && depth + 1 < chain.size();
       level = levels_[static_cast<std::size_t>(level)].below) {
    chain[depth++] = level;
  }
  for (std::size_t i = depth; i-- > 0;) {
    const Level& level = levels_[static_cast<std::size_t>(chain[i])];
    add(level.up + link_of(level, from));
  }
  if (top.described.block_bytes_per_second > 0) add(top.block + static_cast<std::uint32_t>(block_of(top, from)));
  for (std::size_t i = 0; i < depth; ++i) {
    const Level& level = levels_[static_cast<std::size_t>(chain[i])];
    add(level.down + link_of(level, to));
  }
  return path;
}

bool DescribedModel::maps_to_itself(const Level& level, int shift) const {
  const NetworkLevel& described = level.described;
  const bool one_block = described.reaches == 0 || described.reaches >= ranks_;
  if (!one_block && shift % described.reaches != 0) return false;
  if (one_block && described.block_bytes_per_second > 0) return false;  // Shared by a rank and its image.
  if ((described.rails > 1 || level.link_rails > 1) && shift % ranks_per_host_ != 0) return false;
  return shift / level.link_rails % described.shared_by == 0;
}

std::vector<int> DescribedModel::periods() const {
  std::vector<int> periods;
  for (int shift = 1; shift < ranks_; ++shift) {
    if (ranks_ % shift != 0) continue;
    const bool fits =
        std::all_of(levels_.begin(), levels_.end(), [&](const Level& level) { return maps_to_itself(level, shift); });
    if (fits) periods.push_back(shift);
  }
  periods.push_back(ranks_);
  return periods;
}

std::uint32_t DescribedModel::folded(std::uint32_t resource, int period) const {
  if (period == ranks_) return resource;
  const Level& level = level_of(resource);
  if (resource >= level.block) {
    return level.block + (resource - level.block) % static_cast<std::uint32_t>(period / level.described.reaches);
  }
  const std::uint32_t base = resource >= level.down ? level.down : level.up;
  const auto links = static_cast<std::uint32_t>(level.links);
  const auto images = static_cast<std::uint32_t>(period / level.link_rails / level.described.shared_by);
  const std::uint32_t at = resource - base;
  return base + at / links * links + at % links % images;
}

Resource DescribedModel::resource(std::uint32_t id) const {
  const Level& level = level_of(id);
  Resource found{seconds_per_byte(id), level.described.name, ""};
  if (level.described.block_bytes_per_second > 0 && id >= level.block) {
    found.which = fmt::format("all of block {}", id - level.block);
    return found;
  }
  const bool down = id >= level.down;
  const int at = static_cast<int>(id - (down ? level.down : level.up));
  const int place = at % level.links * level.described.shared_by;
  const int width = ranks_per_host_ / level.link_rails;
  const int first =
      level.link_rails == 1 ? place : place / width * ranks_per_host_ + at / level.links * width + place % width;
  found.which = fmt::format("{} rank {}{}", down ? "to" : "from", first,
                            level.described.shared_by > 1 ? " and those that share its link" : "");
  return found;
}

}  // namespace

std::unique_ptr<NetworkModel> make_described_model(const DescribedNetwork& network, int ranks) {
  return std::make_unique<DescribedModel>(network, ranks);
}

std::unique_ptr<NetworkModel> NetworkModel::uniform(int ranks, const Network& network) {
  DescribedNetwork described;
  described.work_bytes_per_second = network.gamma_s_per_byte > 0 ? 1 / network.gamma_s_per_byte : 0;
  NetworkLevel level;
  level.name = "link";
  level.bytes_per_second = 1 / network.beta_s_per_byte;
  level.latency_us = network.alpha_s / kMicrosecond;
  described.levels = {level};
  return make_described_model(described, ranks);
}

Result<std::unique_ptr<NetworkModel>> NetworkModel::make(const Topology& topology, int ranks) {
  if (ranks < 1) return invalid_argument(fmt::format("{} ranks: expected 1 or more", ranks));
  TRIREME_RETURN_IF_ERROR(topology.check());
  if (topology.network) return make_described_model(*topology.network, ranks);
  return make_graph_model(topology, ranks);
}

}  // namespace trireme::plan
