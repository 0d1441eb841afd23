#include "collectives/execute/validate.h"

#include <cmath>
#include <cstdint>
#include <limits>

#include <fmt/core.h>

#include "collectives/execute/extents.h"

namespace trireme {
namespace {

using plan::Collective;

struct Bytes {
  std::uintptr_t begin;
  std::uintptr_t end;
  Bytes(const void* data, std::size_t bytes) : begin(reinterpret_cast<std::uintptr_t>(data)), end(begin + bytes) {}
  bool overlaps(const Bytes& other) const { return begin < other.end && other.begin < end; }
};

Status refuse(const Call& call, const std::string& why) {
  return invalid_argument(describe(call) + ": " + why);
}

Status check_pointer(const Call& call, const char* name, const void* pointer, std::uint64_t elements) {
  if (elements == 0) return {};
  if (pointer == nullptr) return refuse(call, fmt::format("{} is null though count is {}", name, elements));
  if (reinterpret_cast<std::uintptr_t>(pointer) % size_of(call.type) != 0) {
    return refuse(call,
                  fmt::format("{} is not aligned to {} bytes, the size of its elements", name, size_of(call.type)));
  }
  return {};
}

// In place is allowed in one position only; any other overlap would be read and written
// at once.
Status check_overlap(const Call& call, const Extents& extents, const void* input, const void* output) {
  if (extents.input == 0 || extents.output == 0) return {};
  const std::size_t width = size_of(call.type);
  if (!Bytes(input, extents.input * width).overlaps(Bytes(output, extents.output * width))) return {};
  const auto at = [&](const void* pointer) { return static_cast<const char*>(pointer) + extents.own * width; };
  const char* before = is_uneven(call.kind) ? "the counts before this rank's" : "rank * count";
  switch (collective_of(call.kind)) {
    case Collective::all_to_all:
      return refuse(call, "input and output overlap; it has no form in place, so give it two buffers");
    case Collective::all_gather:
    case Collective::gather:
      if (input == at(output)) return {};
      return refuse(call,
                    fmt::format("input and output overlap; in place, input must be output + {} elements", before));
    case Collective::reduce_scatter:
    case Collective::scatter:
      if (output == at(input)) return {};
      return refuse(call,
                    fmt::format("input and output overlap; in place, output must be input + {} elements", before));
    default:
      if (input == output) return {};
      return refuse(call, "input and output overlap in part; pass the same pointer for in place, or disjoint buffers");
  }
}

Status check_counts(const Call& call, const CallDetails& details, int rank, int ranks) {
  const auto self = static_cast<std::size_t>(rank);
  const bool to_all = call.kind == CallKind::all_to_all_v;
  for (const auto* counts : {&details.counts, &details.receive_counts}) {
    if (counts == &details.receive_counts && !to_all) continue;
    if (counts->size() != static_cast<std::size_t>(ranks)) {
      return refuse(call, fmt::format("{} counts; expected one for each of the {} ranks", counts->size(), ranks));
    }
    const std::int64_t most = std::numeric_limits<std::int64_t>::max() / static_cast<std::int64_t>(size_of(call.type));
    std::int64_t left = most;
    for (const std::int64_t count : *counts) {
      if (count < 0 || count > left) {
        return refuse(call, fmt::format("counts exceed what memory can hold ({} elements)", most));
      }
      left -= count;
    }
  }
  if (to_all && details.counts[self] != details.receive_counts[self]) {
    return refuse(call, fmt::format("sends {} elements to itself but receives {}", details.counts[self],
                                    details.receive_counts[self]));
  }
  return {};
}

Status check_reduction(const Call& call, const CallDetails* details) {
  if (call.combining == Combining::named || details == nullptr) return {};
  if (call.combining == Combining::scaled_sum) {
    const double factor = details->factor;
    const bool whole = std::trunc(factor) == factor && std::abs(factor) <= 9007199254740992.0;  // 2^53
    if (is_floating_point(call.type) || whole) return {};
    return refuse(call, fmt::format("the factor {} of a scaled sum of {} must be a whole number up to 2^53", factor,
                                    to_string(call.type)));
  }
  if (details->custom != nullptr && details->custom->combine) return {};
  return refuse(call, "the custom reduction has no function");
}

}  // namespace

Status validate_call(const Call& call, const CallDetails* details, const void* input, const void* output, int rank,
                     int ranks) {
  const bool message = is_message(call.kind);
  const bool rooted = !message && plan::is_rooted(collective_of(call.kind));
  if (static_cast<int>(call.type) >= kDataTypeCount || static_cast<int>(call.op) >= kReduceOpCount) {
    return invalid_argument("the data type or the reduction is none of those known");
  }
  if ((rooted || message) && (call.root < 0 || call.root >= ranks)) {
    return refuse(call, fmt::format("there is no rank {}; expected 0 to {}", call.root, ranks - 1));
  }
  if (message && call.tag < 0) return refuse(call, "a tag must not be negative");
  const std::uint64_t most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) / size_of(call.type) /
                             static_cast<std::uint64_t>(ranks);
  if (!is_uneven(call.kind) && call.count > most) {
    return refuse(call, fmt::format("count exceeds what memory can hold ({} elements)", most));
  }
  if (is_uneven(call.kind)) TRIREME_RETURN_IF_ERROR(check_counts(call, *details, rank, ranks));
  TRIREME_RETURN_IF_ERROR(check_reduction(call, details));
  if (call.kind == CallKind::barrier) return {};
  const Extents extents = extents_of(call, details, rank, ranks);
  if (extents.uses_input) TRIREME_RETURN_IF_ERROR(check_pointer(call, "input", input, extents.input));
  if (extents.uses_output) TRIREME_RETURN_IF_ERROR(check_pointer(call, "output", output, extents.output));
  if (message || !extents.uses_input || !extents.uses_output) return {};
  return check_overlap(call, extents, input, output);
}

}  // namespace trireme
