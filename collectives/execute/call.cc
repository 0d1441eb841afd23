#include "collectives/execute/call.h"

#include <cstring>

#include <fmt/core.h>
#include <trireme/base/check.h>

namespace trireme {
namespace {

constexpr std::uint16_t kMagic = 0x5254;  // "TR"
constexpr std::uint8_t kVersion = 2;

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
  switch (kind) {
    case CallKind::all_gather_v:
    case CallKind::split:
      return plan::Collective::all_gather;
    case CallKind::reduce_scatter_v:
      return plan::Collective::reduce_scatter;
    case CallKind::gather_v:
      return plan::Collective::gather;
    case CallKind::scatter_v:
      return plan::Collective::scatter;
    case CallKind::all_to_all_v:
      return plan::Collective::all_to_all;
    default:
      TRIREME_CHECK(static_cast<int>(kind) < plan::kCollectiveCount, "no collective");
      return static_cast<plan::Collective>(kind);
  }
}

namespace {

std::string describe_reduction(const Call& call) {
  switch (call.combining) {
    case Combining::named:
      return std::string(to_string(call.op));
    case Combining::scaled_sum:
      return "scaled sum";
    case Combining::custom:
    case Combining::custom_in_order:
      break;
  }
  return fmt::format("custom #{:08x}{}", static_cast<std::uint32_t>(call.tag),
                     call.combining == Combining::custom ? "" : " in order");
}

std::string describe_message(const Call& call, const std::string& what) {
  return call.kind == CallKind::send ? fmt::format("send({}, destination={}, tag={})", what, call.root, call.tag)
                                     : fmt::format("receive({}, source={}, tag={})", what, call.root, call.tag);
}

}  // namespace

std::string describe(const Call& call) {
  std::string what = fmt::format("count={}, {}", call.count, to_string(call.type));
  if (is_message(call.kind)) return describe_message(call, what);
  if (call.kind == CallKind::split) return "split()";
  if (call.kind == CallKind::barrier) return "barrier()";
  if (call.kind == CallKind::all_to_all_v) {
    return call.count == 0
               ? fmt::format("all_to_all_v({})", to_string(call.type))
               : fmt::format("all_to_all_v({}, {} elements between these two)", to_string(call.type), call.count);
  }
  const plan::Collective collective = collective_of(call.kind);
  if (is_uneven(call.kind)) {
    what = fmt::format("counts #{:08x} of {} in all, {}", static_cast<std::uint32_t>(call.tag), call.count,
                       to_string(call.type));
  }
  if (plan::reduces(collective)) what += ", " + describe_reduction(call);
  if (plan::is_rooted(collective)) what += fmt::format(", root={}", call.root);
  return fmt::format("{}{}({})", plan::to_string(collective), is_uneven(call.kind) ? "_v" : "", what);
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
  put(bytes.data() + 7, call.combining);
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
  const auto combining = get<std::uint8_t>(bytes.data() + 7);
  if (get<std::uint16_t>(bytes.data()) != kMagic || get<std::uint8_t>(bytes.data() + 2) != kVersion ||
      kind >= kCallKindCount || type >= kDataTypeCount || op >= kReduceOpCount || combining >= kCombiningCount) {
    return std::nullopt;
  }
  Call call;
  call.kind = static_cast<CallKind>(kind);
  call.type = static_cast<DataType>(type);
  call.op = static_cast<ReduceOp>(op);
  call.algorithm = get<std::uint8_t>(bytes.data() + 6);
  call.combining = static_cast<Combining>(combining);
  call.sequence = get<std::uint64_t>(bytes.data() + 8);
  call.count = get<std::uint64_t>(bytes.data() + 16);
  call.root = get<std::int32_t>(bytes.data() + 24);
  call.tag = get<std::int32_t>(bytes.data() + 28);
  return call;
}

}  // namespace trireme
