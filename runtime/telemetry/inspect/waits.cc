#include "runtime/telemetry/inspect/waits.h"

#include <algorithm>

namespace trireme {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;

std::int64_t standing_ns(const Part& part, const RecordedCall& call) {
  return std::max<std::int64_t>(part.rank->recording->read_at_ns - call.entered_ns, 0);
}

// A call that a failure has ended was being waited in until then.
bool has_failed(const Part& part, const RecordedCall& call) {
  return call.state == CallState::failed && part.rank->recording->failure.has_value();
}

// The oldest collective that this rank is in and that has stood too long.
const RecordedCall* stalled_collective(const Part& part, const VerdictOptions& options) {
  for (const RecordedCall& call : part.communicator->recent) {
    if (call.is_message()) continue;
    if (has_failed(part, call)) return &call;
    if (!call.pending()) continue;
    const bool lasts = standing_ns(part, call) >= static_cast<std::int64_t>(options.patience_ms) * kMillisecond;
    return lasts ? &call : nullptr;
  }
  return nullptr;
}

std::uint64_t entered_of(const Part& part) {
  const RecordedCall* last = part.communicator->last_collective();
  return std::max(last == nullptr ? 0 : last->sequence, part.communicator->done_sequence);
}

const Part* part_of(const std::vector<Part>& parts, int rank) {
  const auto found =
      std::find_if(parts.begin(), parts.end(), [&](const Part& part) { return part.rank->rank == rank; });
  return found == parts.end() ? nullptr : &*found;
}

// Members inside whom another one's call waits for while their own waits for nobody.
std::vector<int> waited_for(const std::vector<Part>& parts, const Stall& stall) {
  std::set<int> awaited;
  std::set<int> waiting;
  for (const Part& part : parts) {
    const RecordedCall* call = part.communicator->find(stall.call.sequence);
    if (call == nullptr || call->waits_for < 0) continue;
    awaited.insert(call->waits_for);
    waiting.insert(part.rank->rank);
  }
  std::vector<int> ranks;
  for (const int rank : stall.inside) {
    if (awaited.contains(rank) && !waiting.contains(rank)) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace

Parts parts_of(const std::vector<RankView>& ranks) {
  std::int64_t newest = 0;
  for (const RankView& rank : ranks) {
    if (rank.has_joined()) newest = std::max(newest, rank.recording->identity.epoch);
  }
  Parts parts;
  for (const RankView& rank : ranks) {
    if (!rank.has_joined() || rank.recording->identity.epoch != newest) continue;
    for (const RecordedCommunicator& communicator : rank.recording->communicators) {
      std::vector<Part>& here = parts[communicator.context];
      Part* known = nullptr;
      for (Part& part : here) known = part.rank == &rank ? &part : known;
      if (known == nullptr) {
        here.push_back({&rank, &communicator});
      } else if (communicator.open) {
        known->communicator = &communicator;
      }
    }
  }
  return parts;
}

std::vector<Stall> find_stalls(const Parts& parts, const VerdictOptions& options) {
  std::vector<Stall> stalls;
  for (const auto& [context, here] : parts) {
    // The lowest call that anyone stands in: the others can't be past it by more than one.
    Stall stall;
    const RecordedCommunicator* communicator = nullptr;
    for (const Part& part : here) {
      const RecordedCall* call = stalled_collective(part, options);
      if (call == nullptr || (communicator != nullptr && call->sequence >= stall.call.sequence)) continue;
      stall.call = *call;
      communicator = part.communicator;
    }
    if (communicator == nullptr) continue;
    stall.context = context;
    stall.size = communicator->size;
    for (const Part& part : here) {
      const RecordedCall* call = part.communicator->find(stall.call.sequence);
      if (call == nullptr || (!call->pending() && !has_failed(part, *call))) continue;
      stall.inside.push_back(part.rank->rank);
      const std::int64_t end = call->pending() ? part.rank->recording->read_at_ns : call->ended_ns;
      stall.since_ns = std::max(stall.since_ns, end - call->entered_ns);
    }
    for (const int member : communicator->members) {
      const Part* part = part_of(here, member);
      if (part == nullptr || entered_of(*part) < stall.call.sequence) stall.absent.push_back(member);
    }
    stall.waited_for = waited_for(here, stall);
    stalls.push_back(std::move(stall));
  }
  return stalls;
}

std::vector<LonelyMessage> find_lonely_messages(const Parts& parts, const VerdictOptions& options) {
  std::vector<LonelyMessage> messages;
  for (const auto& [context, here] : parts) {
    for (const Part& part : here) {
      for (const RecordedCall& call : part.communicator->recent) {
        if (!call.is_message() || !(call.pending() || has_failed(part, call))) continue;
        const std::int64_t standing = standing_ns(part, call);
        if (call.pending() && standing < static_cast<std::int64_t>(options.patience_ms) * kMillisecond) continue;
        const auto peer = static_cast<std::size_t>(call.root);
        if (call.root < 0 || peer >= part.communicator->members.size()) continue;
        messages.push_back({part.rank->rank, part.communicator->members[peer], context, call, standing});
        break;
      }
    }
  }
  return messages;
}

}  // namespace trireme
