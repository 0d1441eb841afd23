// Call: one communication call as its caller made it, and its 32-byte form on the wire.
//
// The signature precedes the first byte a rank sends to a peer within a collective, so
// that the peer can compare it with its own call (docs/formats/messages.md). Fields that
// a call does not have are zero, so equal calls have equal bytes.
// Pure values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <trireme/base/data_type.h>

#include "collectives/plan/api/plan.h"

namespace trireme {

enum class CallKind : std::uint8_t {
  all_reduce = 0,  // The first nine are plan::Collective's.
  reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  barrier,
  gather,
  scatter,
  all_to_all,
  all_gather_v,
  reduce_scatter_v,
  gather_v,
  scatter_v,
  all_to_all_v,
  split,  // Runs as an all_gather of (color, key).
  send,
  receive,
};
inline constexpr int kCallKindCount = 17;
// Uneven parts: all_gather_v and the like.
constexpr bool is_uneven(CallKind kind) {
  return kind >= CallKind::all_gather_v && kind <= CallKind::all_to_all_v;
}
constexpr bool is_message(CallKind kind) {
  return kind >= CallKind::send;
}

// How contributions are combined, beyond the named operations.
enum class Combining : std::uint8_t {
  named = 0,
  scaled_sum,
  custom,
  custom_in_order,  // Does not commute.
};
inline constexpr int kCombiningCount = 4;

struct Call {
  CallKind kind = CallKind::barrier;
  DataType type = DataType::f64;
  ReduceOp op = ReduceOp::sum;
  std::uint8_t algorithm = 0;  // Row of plan::algorithms().
  Combining combining = Combining::named;
  std::int32_t root = 0;  // For send and receive: the other rank.
  // Of send and receive. Of a collective: a fingerprint of what does not fit in here, the
  // counts of uneven parts and the name of a custom reduction.
  std::int32_t tag = 0;
  // Of uneven parts: the sum of all counts; of an all_to_all_v 0, and on the wire the
  // elements that go from the sender to the receiver.
  std::uint64_t count = 0;
  std::uint64_t sequence = 0;  // 1 for a communicator's first collective.
  bool operator==(const Call&) const = default;
};

// REQUIRES: a collective or split.
plan::Collective collective_of(CallKind kind);
// "all_reduce(count=100, f32, sum)", "receive(count=3, i64, source=2, tag=0)".
std::string describe(const Call& call);
// "7th".
std::string ordinal(std::uint64_t number);

inline constexpr std::size_t kSignatureBytes = 32;
using Signature = std::array<std::byte, kSignatureBytes>;
Signature encode_signature(const Call& call);
// nullopt when the bytes are no signature of this version.
std::optional<Call> decode_signature(std::span<const std::byte, kSignatureBytes> bytes);

// Payload is padded to this, so that elements in a ring buffer stay aligned.
inline constexpr std::size_t kMessageAlignment = 32;
constexpr std::size_t padded(std::size_t bytes) {
  return (bytes + kMessageAlignment - 1) / kMessageAlignment * kMessageAlignment;
}

}  // namespace trireme
