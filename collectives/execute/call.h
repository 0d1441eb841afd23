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
  all_reduce = 0,  // The first six are plan::Collective's.
  reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  barrier,
  split,  // Runs as an all_gather of (color, key).
  send,
  receive,
};
inline constexpr int kCallKindCount = 9;

struct Call {
  CallKind kind = CallKind::barrier;
  DataType type = DataType::f64;
  ReduceOp op = ReduceOp::sum;
  std::uint8_t algorithm = 0;  // Row of plan::algorithms().
  std::int32_t root = 0;       // For send and receive: the other rank.
  std::int32_t tag = 0;        // Of send and receive.
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
