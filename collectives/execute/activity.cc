#include "collectives/execute/activity.h"

#include <algorithm>
#include <cstring>

#include <trireme/base/wire.h>

namespace trireme {

const ContextActivity* RankActivity::find(std::uint64_t context) const {
  for (const ContextActivity& activity : contexts) {
    if (activity.context == context) return &activity;
  }
  return nullptr;
}

void ActivityRecord::enter(const Call& call) {
  const std::lock_guard lock(mutex_);
  entered_ = call.sequence;
  inside_ = true;
  recent_[call.sequence % kRecent] = call;
}

void ActivityRecord::leave() {
  const std::lock_guard lock(mutex_);
  inside_ = false;
}

void ActivityRecord::set_waiting(std::vector<int> world_ranks, std::string call) {
  const std::lock_guard lock(mutex_);
  waits_for_ = std::move(world_ranks);
  waiting_call_ = std::move(call);
}

ContextActivity ActivityRecord::snapshot() const {
  const std::lock_guard lock(mutex_);
  ContextActivity activity{context_, entered_, inside_, {}, waits_for_, waiting_call_};
  const std::uint64_t first = entered_ > kRecent ? entered_ - kRecent + 1 : 1;
  for (std::uint64_t sequence = first; sequence <= entered_; ++sequence) {
    activity.recent.push_back(recent_[sequence % kRecent]);
  }
  return activity;
}

std::optional<Call> ActivityRecord::recent_call(std::uint64_t sequence) const {
  const std::lock_guard lock(mutex_);
  const Call& call = recent_[sequence % kRecent];
  if (sequence == 0 || call.sequence != sequence) return std::nullopt;
  return call;
}

std::string encode_activity(const std::vector<ContextActivity>& contexts) {
  WireWriter writer;
  for (const ContextActivity& activity : contexts) {
    writer.u64(activity.context);
    writer.u64(activity.entered);
    writer.u8(activity.inside ? 1 : 0);
    writer.u32(static_cast<std::uint32_t>(activity.recent.size()));
    for (const Call& call : activity.recent) {
      const Signature signature = encode_signature(call);
      writer.bytes(std::string_view(reinterpret_cast<const char*>(signature.data()), signature.size()));
    }
    writer.u32(static_cast<std::uint32_t>(activity.waits_for.size()));
    for (int rank : activity.waits_for) writer.u32(static_cast<std::uint32_t>(rank));
    writer.bytes(activity.waiting_call);
  }
  return writer.take();
}

std::optional<RankActivity> decode_activity(std::string_view text) {
  WireReader reader(text);
  RankActivity rank;
  while (reader.remaining() > 0) {
    ContextActivity activity;
    activity.context = reader.u64();
    activity.entered = reader.u64();
    activity.inside = reader.u8() != 0;
    const std::uint32_t calls = reader.u32();
    for (std::uint32_t i = 0; i < calls && !reader.failed(); ++i) {
      const std::string_view bytes = reader.bytes();
      if (bytes.size() != kSignatureBytes) return std::nullopt;
      Signature signature;
      std::memcpy(signature.data(), bytes.data(), kSignatureBytes);
      const std::optional<Call> call = decode_signature(signature);
      if (!call) return std::nullopt;
      activity.recent.push_back(*call);
    }
    const std::uint32_t waits = reader.u32();
    for (std::uint32_t i = 0; i < waits && !reader.failed(); ++i) {
      activity.waits_for.push_back(static_cast<int>(reader.u32()));
    }
    activity.waiting_call = reader.string();
    if (reader.failed()) return std::nullopt;
    rank.contexts.push_back(std::move(activity));
  }
  return rank;
}

}  // namespace trireme
