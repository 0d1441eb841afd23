#include "runtime/telemetry/api/verdict.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/core.h>
#include <trireme/base/units.h>

#include "runtime/telemetry/inspect/waits.h"

namespace trireme {
namespace {

std::string ordinal(std::uint64_t number) {
  const std::uint64_t tens = number % 100;
  const bool teen = tens >= 11 && tens <= 13;
  const char* suffix = teen || number % 10 == 0 || number % 10 > 3 ? "th"
                       : number % 10 == 1                          ? "st"
                       : number % 10 == 2                          ? "nd"
                                                                   : "rd";
  return std::to_string(number) + suffix;
}

std::string duration(std::int64_t nanoseconds) {
  return format_duration_ms(static_cast<std::uint64_t>(std::max<std::int64_t>(nanoseconds, 0)) / 1'000'000);
}

std::string communicator_name(std::uint64_t context, int size) {
  return fmt::format("communicator {:016x} ({} ranks)", context, size);
}

class Judge {
 public:
  Judge(const std::vector<RankView>& ranks, const VerdictOptions& options)
      : ranks_(ranks),
        parts_(parts_of(ranks)),
        stalls_(find_stalls(parts_, options)),
        messages_(find_lonely_messages(parts_, options)) {}

  JobVerdict run() {
    find_ended();
    find_stopped();
    for (const auto& [context, parts] : parts_) find_disagreement(context, parts);
    find_missing();
    if (verdict_.findings.empty()) find_slow();
    for (const Stall& stall : stalls_) tell_progress(stall);
    return std::move(verdict_);
  }

 private:
  const RankView* view(int rank) const {
    const auto found = std::find_if(ranks_.begin(), ranks_.end(), [&](const RankView& v) { return v.rank == rank; });
    return found == ranks_.end() ? nullptr : &*found;
  }
  std::string name(int rank) const {
    const RankView* found = view(rank);
    return found == nullptr ? fmt::format("rank {}", rank) : found->name();
  }
  void add(FindingKind kind, std::vector<int> ranks, std::uint64_t context, std::string text) {
    blamed_.insert(ranks.begin(), ranks.end());
    verdict_.findings.push_back({kind, std::move(ranks), context, std::move(text)});
  }

  std::string who_waits(int rank) const;
  std::string last_act(int rank, std::uint64_t context) const;
  void find_ended();
  void find_stopped();
  void find_disagreement(std::uint64_t context, const std::vector<Part>& parts);
  void find_missing();
  void find_slow();
  void tell_progress(const Stall& stall);
  bool stands_still(int rank) const;

  const std::vector<RankView>& ranks_;
  const Parts parts_;
  const std::vector<Stall> stalls_;
  const std::vector<LonelyMessage> messages_;
  std::set<int> blamed_;
  std::set<std::uint64_t> disputed_;  // Contexts with a disagreement: what follows there is its consequence.
  JobVerdict verdict_;
};

// ": ranks 0-1 have waited 12 s for it in all_reduce(...), the 7th call of ..."
std::string Judge::who_waits(int rank) const {
  for (const Stall& stall : stalls_) {
    std::vector<int> others = stall.inside;
    std::erase(others, rank);
    const bool absent = std::find(stall.absent.begin(), stall.absent.end(), rank) != stall.absent.end();
    const bool inside = others.size() < stall.inside.size();
    if (others.empty() || !(absent || inside)) continue;
    return fmt::format("; {} {} waited {} for it in {}, the {} call of {}{}", rank_list(others),
                       others.size() == 1 ? "has" : "have", duration(stall.since_ns), stall.call.describe(),
                       ordinal(stall.call.sequence), communicator_name(stall.context, stall.size),
                       absent ? ", which it has not entered" : "");
  }
  for (const LonelyMessage& message : messages_) {
    if (message.peer != rank) continue;
    return fmt::format("; rank {} has waited {} for it in {}", message.rank, duration(message.since_ns),
                       message.call.describe());
  }
  return "";
}

// What happens to a rank that has itself found another to blame is a consequence.
bool is_echo(const RankView& rank) {
  return rank.recording && rank.recording->failure;
}

void Judge::find_ended() {
  for (const RankView& rank : ranks_) {
    if (!rank.failed || is_echo(rank)) continue;
    add(FindingKind::ended, {rank.rank}, 0,
        fmt::format("{} ended by itself: {}{}", rank.name(), rank.ended, who_waits(rank.rank)));
  }
}

void Judge::find_stopped() {
  for (const RankView& rank : ranks_) {
    if (!rank.is_stopped() || is_echo(rank)) continue;
    const std::string remedy = rank.state == 't' ? std::string("A debugger or tracer holds it")
                                                 : fmt::format("\"kill -CONT {}\" continues it", rank.pid);
    add(FindingKind::stopped, {rank.rank}, 0,
        fmt::format("{} is stopped (state {}){}. {}", rank.name(), rank.state, who_waits(rank.rank), remedy));
  }
}

void Judge::find_disagreement(std::uint64_t context, const std::vector<Part>& parts) {
  // By sequence, who called what; the first number with two answers is the cause.
  std::map<std::uint64_t, std::vector<std::pair<const RecordedCall*, std::vector<int>>>> said;
  for (const Part& part : parts) {
    for (const RecordedCall& call : part.communicator->recent) {
      if (call.is_message()) continue;
      auto& versions = said[call.sequence];
      const auto same = std::find_if(versions.begin(), versions.end(),
                                     [&](const auto& version) { return version.first->agrees_with(call); });
      if (same == versions.end()) {
        versions.push_back({&call, {part.rank->rank}});
      } else {
        same->second.push_back(part.rank->rank);
      }
    }
  }
  for (auto& [sequence, versions] : said) {
    if (versions.size() < 2) continue;
    std::stable_sort(versions.begin(), versions.end(),
                     [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
    std::vector<int> minority;
    std::string text = fmt::format("ranks disagree on the {} call of {}", ordinal(sequence),
                                   communicator_name(context, parts.front().communicator->size));
    for (std::size_t i = 0; i < versions.size(); ++i) {
      text +=
          fmt::format("{} {}: {}", i == 0 ? ":" : ";", rank_list(versions[i].second), versions[i].first->describe());
      if (i > 0) minority.insert(minority.end(), versions[i].second.begin(), versions[i].second.end());
    }
    disputed_.insert(context);
    return add(FindingKind::disagree, std::move(minority), context, std::move(text));
  }
}

bool Judge::stands_still(int rank) const {
  const auto holds = [&](const Stall& stall) {
    return std::find(stall.inside.begin(), stall.inside.end(), rank) != stall.inside.end();
  };
  const auto waits = [&](const LonelyMessage& message) { return message.rank == rank; };
  return std::any_of(stalls_.begin(), stalls_.end(), holds) || std::any_of(messages_.begin(), messages_.end(), waits);
}

std::string Judge::last_act(int rank, std::uint64_t context) const {
  const RankView* found = view(rank);
  if (found == nullptr) return "nothing is known of it here (another host's?)";
  if (!found->has_joined()) return "its program has not joined the job";
  const std::string now = found->state != 'X'    ? std::string("is busy in its own code")
                          : found->ended.empty() ? std::string("has ended")
                                                 : "has ended: " + found->ended;
  for (const RecordedCommunicator& communicator : found->recording->communicators) {
    if (communicator.context != context) continue;
    const RecordedCall* last = communicator.last_collective();
    if (last == nullptr) return "it has made no call there yet";
    return fmt::format("its last call there was {} (the {}), and it {}", last->describe(), ordinal(last->sequence),
                       now);
  }
  return found->recording->left ? "it has left the job" : "it has no such communicator (yet, or any more)";
}

void Judge::find_missing() {
  bool any_root = false;
  // Who misses a dead rank is not to blame for what comes next.
  for (const Finding& finding : verdict_.findings) any_root |= finding.kind == FindingKind::ended;
  if (any_root) return;
  for (const Stall& stall : stalls_) {
    if (disputed_.contains(stall.context)) continue;
    std::vector<int> roots;
    for (const int rank : stall.absent) {
      any_root |= blamed_.contains(rank);
      if (!blamed_.contains(rank) && !stands_still(rank)) roots.push_back(rank);
    }
    if (roots.empty()) continue;
    any_root = true;
    const std::string who = roots.size() == 1 ? name(roots.front()) + " has" : rank_list(roots) + " have";
    std::string text =
        fmt::format("{} not entered {}, the {} call of {}, in which {} waited {}", who, stall.call.describe(),
                    ordinal(stall.call.sequence), communicator_name(stall.context, stall.size),
                    rank_list(stall.inside) + (stall.inside.size() == 1 ? " has" : " have"), duration(stall.since_ns));
    if (roots.size() == 1) text += "; " + last_act(roots.front(), stall.context);
    add(FindingKind::missing, std::move(roots), stall.context, std::move(text));
  }
  for (const LonelyMessage& message : messages_) {
    any_root |= blamed_.contains(message.peer);
    if (blamed_.contains(message.peer) || stands_still(message.peer)) continue;
    any_root = true;
    add(FindingKind::missing, {message.peer}, message.context,
        fmt::format("{} has not made the other half of {}, in which rank {} has waited {}", name(message.peer),
                    message.call.describe(), message.rank, duration(message.since_ns)));
  }
  const bool stuck = !messages_.empty() ||
                     std::any_of(stalls_.begin(), stalls_.end(), [](const Stall& s) { return !s.absent.empty(); });
  if (any_root || !stuck || !verdict_.findings.empty()) return;
  std::set<int> all;
  for (const Stall& stall : stalls_) all.insert(stall.inside.begin(), stall.inside.end());
  for (const LonelyMessage& message : messages_) all.insert(message.rank);
  std::vector<int> ranks(all.begin(), all.end());
  std::string text = rank_list(ranks) +
                     " wait for each other: look for a receive without a send, or for communicators "
                     "used in different orders";
  add(FindingKind::circle, std::move(ranks), 0, std::move(text));
}

void Judge::find_slow() {
  for (const Stall& stall : stalls_) {
    if (!stall.absent.empty()) continue;
    const std::string call = fmt::format("{}, the {} call of {}", stall.call.describe(), ordinal(stall.call.sequence),
                                         communicator_name(stall.context, stall.size));
    if (stall.waited_for.empty()) {
      add(FindingKind::slow, stall.inside, stall.context,
          fmt::format("{} have been in {} for {}: all have entered it, and nobody is seen to hold it up",
                      rank_list(stall.inside), call, duration(stall.since_ns)));
      continue;
    }
    const std::vector<int>& slow = stall.waited_for;
    add(FindingKind::slow, slow, stall.context,
        fmt::format("{} {} slow in {}, which has lasted {}", slow.size() == 1 ? name(slow.front()) : rank_list(slow),
                    slow.size() == 1 ? "is" : "are", call, duration(stall.since_ns)));
  }
}

// "communicator ...: ranks 0-2 have finished 51 calls, rank 3 50"
void Judge::tell_progress(const Stall& stall) {
  std::map<std::uint64_t, std::vector<int>, std::greater<>> by_done;
  for (const Part& part : parts_.at(stall.context))
    by_done[part.communicator->done_sequence].push_back(part.rank->rank);
  std::string text = communicator_name(stall.context, stall.size) + ": last call finished";
  for (const auto& [done, ranks] : by_done)
    text += fmt::format(", {} by {}", done == 0 ? "none" : ordinal(done), rank_list(ranks));
  text.replace(text.find("finished,"), 9, "finished:");
  verdict_.progress.push_back(std::move(text));
}

}  // namespace

std::string RankView::name() const {
  return fmt::format("rank {} ({}, pid {})", rank, host, pid);
}

std::string_view to_string(FindingKind kind) {
  static constexpr std::string_view kNames[] = {"ended", "stopped", "disagree", "missing", "slow", "circle"};
  return kNames[static_cast<std::size_t>(kind)];
}

JobVerdict judge(const std::vector<RankView>& ranks, const VerdictOptions& options) {
  return Judge(ranks, options).run();
}

std::vector<std::string> verdict_lines(const JobVerdict& verdict) {
  std::vector<std::string> lines;
  for (const Finding& finding : verdict.findings) lines.push_back(finding.text);
  lines.insert(lines.end(), verdict.progress.begin(), verdict.progress.end());
  return lines;
}

std::string rank_list(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (i > 0) text += ", ";
    text += std::to_string(ranks[i]);
    if (last > i) text += "-" + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace trireme
