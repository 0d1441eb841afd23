#include "collectives/execute/validate.h"

#include <cstdint>
#include <limits>

#include <fmt/core.h>

namespace trireme {
namespace {

struct Bytes {
  std::uintptr_t begin;
  std::uintptr_t end;
  Bytes(const void* data, std::size_t bytes) : begin(reinterpret_cast<std::uintptr_t>(data)), end(begin + bytes) {}
  bool overlaps(const Bytes& other) const { return begin < other.end && other.begin < end; }
};

bool uses_input(const Call& call, int rank) {
  return call.kind != CallKind::receive && (call.kind != CallKind::broadcast || rank == call.root);
}

bool uses_output(const Call& call, int rank) {
  return call.kind != CallKind::send && (call.kind != CallKind::reduce || rank == call.root);
}

Status refuse(const Call& call, const std::string& why) {
  return invalid_argument(describe(call) + ": " + why);
}

Status check_pointer(const Call& call, const char* name, const void* pointer) {
  if (pointer == nullptr) return refuse(call, fmt::format("{} is null though count is {}", name, call.count));
  if (reinterpret_cast<std::uintptr_t>(pointer) % size_of(call.type) != 0) {
    return refuse(call,
                  fmt::format("{} is not aligned to {} bytes, the size of its elements", name, size_of(call.type)));
  }
  return {};
}

// In place is allowed in one position only; any other overlap would be read and written
// at once.
Status check_overlap(const Call& call, const void* input, const void* output, int rank, int ranks) {
  const std::size_t part = call.count * size_of(call.type);
  const std::size_t all = part * static_cast<std::size_t>(ranks);
  const auto at = [](const void* pointer, std::size_t offset) { return static_cast<const char*>(pointer) + offset; };
  const std::size_t offset = static_cast<std::size_t>(rank) * part;
  if (call.kind == CallKind::all_gather) {
    if (!Bytes(input, part).overlaps(Bytes(output, all)) || input == at(output, offset)) return {};
    return refuse(call, "input and output overlap; in place, input must be output + rank * count elements");
  }
  if (call.kind == CallKind::reduce_scatter) {
    if (!Bytes(input, all).overlaps(Bytes(output, part)) || output == at(input, offset)) return {};
    return refuse(call, "input and output overlap; in place, output must be input + rank * count elements");
  }
  if (!Bytes(input, part).overlaps(Bytes(output, part)) || input == output) return {};
  return refuse(call, "input and output overlap in part; pass the same pointer for in place, or disjoint buffers");
}

}  // namespace

Status validate_call(const Call& call, const void* input, const void* output, int rank, int ranks) {
  const bool rooted = call.kind == CallKind::broadcast || call.kind == CallKind::reduce;
  const bool message = call.kind == CallKind::send || call.kind == CallKind::receive;
  if (static_cast<int>(call.type) >= kDataTypeCount || static_cast<int>(call.op) >= kReduceOpCount) {
    return invalid_argument("the data type or the reduction is none of those known");
  }
  if ((rooted || message) && (call.root < 0 || call.root >= ranks)) {
    return refuse(call, fmt::format("there is no rank {}; expected 0 to {}", call.root, ranks - 1));
  }
  if (message && call.tag < 0) return refuse(call, "a tag must not be negative");
  const std::uint64_t most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) / size_of(call.type) /
                             static_cast<std::uint64_t>(ranks);
  if (call.count > most) return refuse(call, fmt::format("count exceeds what memory can hold ({} elements)", most));
  if (call.count == 0 || call.kind == CallKind::barrier) return {};
  if (uses_input(call, rank)) TRIREME_RETURN_IF_ERROR(check_pointer(call, "input", input));
  if (uses_output(call, rank)) TRIREME_RETURN_IF_ERROR(check_pointer(call, "output", output));
  if (message || !uses_input(call, rank) || !uses_output(call, rank)) return {};
  return check_overlap(call, input, output, rank, ranks);
}

}  // namespace trireme
