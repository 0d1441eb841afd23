#include "collectives/execute/extents.h"

#include <numeric>

namespace trireme {

using plan::Collective;

Extents extents_of(const Call& call, const CallDetails* details, int rank, int ranks) {
  const bool sends = call.kind == CallKind::send;
  if (is_message(call.kind)) return {call.count, call.count, 0, sends, !sends};
  const Collective collective = collective_of(call.kind);
  const auto sum = [](const std::vector<std::int64_t>& counts, std::size_t end) {
    return static_cast<std::uint64_t>(
        std::accumulate(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(end), std::int64_t{0}));
  };
  const bool uneven = is_uneven(call.kind) && details != nullptr;
  const auto self = static_cast<std::size_t>(rank);
  const std::uint64_t all =
      uneven ? sum(details->counts, details->counts.size()) : call.count * static_cast<std::uint64_t>(ranks);
  const std::uint64_t part = uneven ? static_cast<std::uint64_t>(details->counts[self]) : call.count;
  const std::uint64_t before = uneven ? sum(details->counts, self) : call.count * self;
  const bool root = !plan::is_rooted(collective) || rank == call.root;
  if (plan::gathers(collective)) return {part, all, before, true, root};
  if (plan::scatters(collective)) return {all, part, before, root || collective == Collective::reduce_scatter, true};
  if (collective == Collective::all_to_all) {
    return {all, uneven ? sum(details->receive_counts, details->receive_counts.size()) : all, 0, true, true};
  }
  return {call.count, call.count, 0, root || collective != Collective::broadcast,
          root || collective != Collective::reduce};
}

}  // namespace trireme
