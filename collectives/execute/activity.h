// Activity: what a rank is doing, as it tells other ranks that ask (through
// World::collect_activities).
//
// ActivityRecord is the live form, one per communicator: written by the thread that runs
// its calls, read by the World's service thread. RankActivity is the decoded text of one
// rank: all its communicators. Ranks in here are world ranks.
// Thread safety: ActivityRecord: all methods; the rest are values.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/execute/call.h"

namespace trireme {

struct ContextActivity {
  std::uint64_t context = 0;
  std::uint64_t entered = 0;   // Collectives entered so far (the last one's sequence).
  bool inside = false;         // The last one is not done yet.
  std::vector<Call> recent;    // The last collectives entered, oldest first.
  std::vector<int> waits_for;  // Ranks whose move is awaited; empty while moving.
  std::string waiting_call;    // The call that waits, for people.
};

struct RankActivity {
  std::vector<ContextActivity> contexts;
  const ContextActivity* find(std::uint64_t context) const;
};

class ActivityRecord {
 public:
  explicit ActivityRecord(std::uint64_t context) : context_(context) {}
  void enter(const Call& call);
  void leave();
  // What is waited for; empty when things move again.
  void set_waiting(std::vector<int> world_ranks, std::string call);
  ContextActivity snapshot() const;
  // The collective with that sequence number, while it is among the recent ones.
  std::optional<Call> recent_call(std::uint64_t sequence) const;

 private:
  static constexpr std::size_t kRecent = 8;
  mutable std::mutex mutex_;
  const std::uint64_t context_;
  std::uint64_t entered_ = 0;
  bool inside_ = false;
  std::array<Call, kRecent> recent_{};
  std::vector<int> waits_for_;
  std::string waiting_call_;
};

// The text other ranks get. Texts of several sources may be concatenated.
std::string encode_activity(const std::vector<ContextActivity>& contexts);
// nullopt when the text is malformed.
std::optional<RankActivity> decode_activity(std::string_view text);

}  // namespace trireme
