#include "collectives/execute/call.h"

#include <cstring>

#include <fmt/core.h>
#include <trireme/base/check.h>

namespace trireme {
namespace {

constexpr std::uint16_t kMagic = 0x5254;  // "TR"
constexpr std::uint8_t kVersion = 1;

// The hosts of one job have one byte order (x86-64 or AArch64, little-endian).
template <typename T>
void put(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

template <typename T>
T get(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

}  // namespace

plan::Collective collective_of(CallKind kind) {
  if (kind == CallKind::split) return plan::Collective::all_gather;
  TRIREME_CHECK(kind < CallKind::split, "no collective");
  return static_cast<plan::Collective>(kind);
}

std::string describe(const Call& call) {
  const std::string what = fmt::format("count={}, {}", call.count, to_string(call.type));
  switch (call.kind) {
    case CallKind::all_reduce:
    case CallKind::reduce_scatter:
      return fmt::format("{}({}, {})", plan::to_string(collective_of(call.kind)), what, to_string(call.op));
    case CallKind::reduce:
      return fmt::format("reduce({}, {}, root={})", what, to_string(call.op), call.root);
    case CallKind::broadcast:
      return fmt::format("broadcast({}, root={})", what, call.root);
    case CallKind::all_gather:
      return fmt::format("all_gather({})", what);
    case CallKind::barrier:
      return "barrier()";
    case CallKind::split:
      return "split()";
    case CallKind::send:
      return fmt::format("send({}, destination={}, tag={})", what, call.root, call.tag);
    case CallKind::receive:
      return fmt::format("receive({}, source={}, tag={})", what, call.root, call.tag);
  }
  return "unknown call";
}

std::string ordinal(std::uint64_t number) {
  const std::uint64_t tens = number % 100;
  const char* suffix = "th";
  if (tens < 11 || tens > 13) {
    if (number % 10 == 1) suffix = "st";
    if (number % 10 == 2) suffix = "nd";
    if (number % 10 == 3) suffix = "rd";
  }
  return std::to_string(number) + suffix;
}

Signature encode_signature(const Call& call) {
  Signature bytes{};
  put(bytes.data(), kMagic);
  put(bytes.data() + 2, kVersion);
  put(bytes.data() + 3, call.kind);
  put(bytes.data() + 4, call.type);
  put(bytes.data() + 5, call.op);
  put(bytes.data() + 6, call.algorithm);
  put(bytes.data() + 8, call.sequence);
  put(bytes.data() + 16, call.count);
  put(bytes.data() + 24, call.root);
  put(bytes.data() + 28, call.tag);
  return bytes;
}

std::optional<Call> decode_signature(std::span<const std::byte, kSignatureBytes> bytes) {
  const auto kind = get<std::uint8_t>(bytes.data() + 3);
  const auto type = get<std::uint8_t>(bytes.data() + 4);
  const auto op = get<std::uint8_t>(bytes.data() + 5);
  if (get<std::uint16_t>(bytes.data()) != kMagic || get<std::uint8_t>(bytes.data() + 2) != kVersion ||
      kind >= kCallKindCount || type >= kDataTypeCount || op >= kReduceOpCount) {
    return std::nullopt;
  }
  Call call;
  call.kind = static_cast<CallKind>(kind);
  call.type = static_cast<DataType>(type);
  call.op = static_cast<ReduceOp>(op);
  call.algorithm = get<std::uint8_t>(bytes.data() + 6);
  call.sequence = get<std::uint64_t>(bytes.data() + 8);
  call.count = get<std::uint64_t>(bytes.data() + 16);
  call.root = get<std::int32_t>(bytes.data() + 24);
  call.tag = get<std::int32_t>(bytes.data() + 28);
  return call;
}

}  // namespace trireme
