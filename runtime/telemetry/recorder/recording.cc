#include "runtime/telemetry/api/recording.h"

#include <algorithm>

#include <fmt/core.h>

namespace trireme {
namespace {

bool reduces(const RecordedCall& call) {
  return call.op.find("reduce") != std::string::npos;
}

}  // namespace

std::string RecordedCall::describe() const {
  std::string text = fmt::format("{}(", op);
  if (op == "barrier" || op == "split") return text + ")";
  text += fmt::format("count={}, {}", count, to_string(type));
  if (is_message()) return text + fmt::format(", peer={}, tag={})", root, tag);
  if (reduces(*this)) text += fmt::format(", {}", to_string(reduction));
  if (op == "reduce" || op == "broadcast" || op.rfind("gather", 0) == 0 || op.rfind("scatter", 0) == 0) {
    text += fmt::format(", root={}", root);
  }
  if (tag != 0) text += fmt::format(", details={:08x}", static_cast<std::uint32_t>(tag));
  return text + ")";
}

bool RecordedCall::agrees_with(const RecordedCall& other) const {
  return sequence == other.sequence && op == other.op && type == other.type && reduction == other.reduction &&
         count == other.count && root == other.root && tag == other.tag;
}

const RecordedCall* RecordedCommunicator::pending_call() const {
  const auto found =
      std::find_if(recent.begin(), recent.end(), [](const RecordedCall& call) { return call.pending(); });
  return found == recent.end() ? nullptr : &*found;
}

const RecordedCall* RecordedCommunicator::last_collective() const {
  const auto found =
      std::find_if(recent.rbegin(), recent.rend(), [](const RecordedCall& call) { return !call.is_message(); });
  return found == recent.rend() ? nullptr : &*found;
}

const RecordedCall* RecordedCommunicator::find(std::uint64_t sequence) const {
  const auto found =
      std::find_if(recent.begin(), recent.end(), [&](const RecordedCall& call) { return call.sequence == sequence; });
  return found == recent.end() ? nullptr : &*found;
}

std::uint64_t bucket_bound_ns(std::size_t i) {
  return i + 1 >= recorder_layout::kBuckets ? UINT64_MAX : std::uint64_t{1} << (10 + 2 * i);
}

}  // namespace trireme
