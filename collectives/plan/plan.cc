#include "collectives/plan/api/plan.h"

#include <algorithm>
#include <numeric>

namespace trireme::plan {

std::string_view to_string(Collective collective) {
  switch (collective) {
    case Collective::all_reduce:
      return "all_reduce";
    case Collective::reduce:
      return "reduce";
    case Collective::broadcast:
      return "broadcast";
    case Collective::all_gather:
      return "all_gather";
    case Collective::reduce_scatter:
      return "reduce_scatter";
    case Collective::barrier:
      return "barrier";
    case Collective::gather:
      return "gather";
    case Collective::scatter:
      return "scatter";
    case Collective::all_to_all:
      return "all_to_all";
  }
  return "unknown";
}

bool reduces(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce ||
         collective == Collective::reduce_scatter;
}

bool is_rooted(Collective collective) {
  return collective == Collective::reduce || collective == Collective::broadcast || collective == Collective::gather ||
         collective == Collective::scatter;
}

bool gathers(Collective collective) {
  return collective == Collective::all_gather || collective == Collective::gather;
}

bool scatters(Collective collective) {
  return collective == Collective::reduce_scatter || collective == Collective::scatter;
}

namespace {

// Elements of the parts of all ranks together, and of rank `rank`'s.
std::int64_t all_parts(const Request& request, const std::vector<std::int64_t>& counts) {
  if (counts.empty()) return request.count * request.ranks;
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}
std::int64_t one_part(const Request& request, int rank) {
  return request.uneven() ? request.counts[static_cast<std::size_t>(rank)] : request.count;
}

}  // namespace

std::int64_t input_elements(const Request& request, int rank) {
  switch (request.collective) {
    case Collective::reduce_scatter:
    case Collective::scatter:
    case Collective::all_to_all:
      return all_parts(request, request.counts);
    case Collective::all_gather:
    case Collective::gather:
      return one_part(request, rank);
    default:
      return request.count;
  }
}

std::int64_t output_elements(const Request& request, int rank) {
  switch (request.collective) {
    case Collective::reduce_scatter:
    case Collective::scatter:
      return one_part(request, rank);
    case Collective::all_gather:
    case Collective::gather:
      return all_parts(request, request.counts);
    case Collective::all_to_all:
      return all_parts(request, request.receive_counts);
    default:
      return request.count;
  }
}

Layout uneven_layout(const std::vector<std::int64_t>& counts) {
  Layout layout;
  layout.chunks = static_cast<std::int32_t>(counts.size());
  layout.bounds.reserve(counts.size() + 1);
  layout.bounds.push_back(0);
  for (const std::int64_t count : counts) layout.bounds.push_back(layout.bounds.back() + count);
  layout.elements = layout.bounds.back();
  return layout;
}

bool has_peer(const Op& op) {
  return op.kind == OpKind::send || op.kind == OpKind::receive || op.kind == OpKind::receive_reduce ||
         op.kind == OpKind::fetch;
}

bool synchronizes(const Op& op) {
  return op.kind == OpKind::expose || op.kind == OpKind::fence;
}

std::size_t widest_round(const Program& program) {
  std::size_t widest = 0;
  for (const Round& round : program.rounds) widest = std::max<std::size_t>(widest, round.op_count);
  return widest;
}

}  // namespace trireme::plan
