#include "collectives/execute/diagnose.h"

#include <algorithm>

#include <fmt/core.h>

namespace trireme {
namespace {

std::string name_of(const Question& question, int rank) {
  const auto index = static_cast<std::size_t>(rank);
  return index < question.names.size() ? question.names[index] : fmt::format("rank {}", rank);
}

std::string heading(const Question& question) {
  if (question.sequence == 0) return fmt::format("{} stood still for {} ms", question.call, question.timeout_ms);
  return fmt::format("{}, the {} call of its communicator, stood still for {} ms", question.call,
                     ordinal(question.sequence), question.timeout_ms);
}

// Where the chain of waiting ends, and how.
struct End {
  enum class Kind { silent, absent, moving, circle } kind = Kind::circle;
  int rank = -1;
};

const RankActivity* activity_of(const Activities& activities, int rank) {
  if (rank < 0 || static_cast<std::size_t>(rank) >= activities.size()) return nullptr;
  const auto& entry = activities[static_cast<std::size_t>(rank)];
  return entry ? &*entry : nullptr;
}

bool has_entered(const Question& question, const RankActivity& activity) {
  const ContextActivity* context = activity.find(question.context);
  return question.sequence != 0 && context != nullptr && context->entered >= question.sequence;
}

// Ranks that `rank` waits for: in this communicator first, in any other otherwise.
std::vector<int> waits_of(const Question& question, const RankActivity& activity) {
  const ContextActivity* here = activity.find(question.context);
  if (here != nullptr && !here->waits_for.empty()) return here->waits_for;
  for (const ContextActivity& context : activity.contexts) {
    if (!context.waits_for.empty()) return context.waits_for;
  }
  return {};
}

int badness(End::Kind kind) {
  switch (kind) {
    case End::Kind::silent:
      return 3;
    case End::Kind::absent:
      return 2;
    case End::Kind::moving:
      return 1;
    case End::Kind::circle:
      return 0;
  }
  return 0;
}

// Depth-first over who waits for whom; the worst end found, nearest first.
End follow(const Question& question, const Activities& activities, int rank, std::vector<bool>& seen) {
  const RankActivity* activity = activity_of(activities, rank);
  if (activity == nullptr) return {End::Kind::silent, rank};
  const std::vector<int> waits = waits_of(question, *activity);
  if (waits.empty()) return {has_entered(question, *activity) ? End::Kind::moving : End::Kind::absent, rank};
  End worst;
  for (int next : waits) {
    if (next < 0 || static_cast<std::size_t>(next) >= seen.size() || seen[static_cast<std::size_t>(next)]) continue;
    seen[static_cast<std::size_t>(next)] = true;
    const End end = follow(question, activities, next, seen);
    if (badness(end.kind) > badness(worst.kind)) worst = end;
  }
  return worst;
}

End find_end(const Question& question, const Activities& activities) {
  std::vector<bool> seen(std::max(activities.size(), question.names.size()));
  End worst;
  seen[static_cast<std::size_t>(question.self)] = true;
  for (int next : question.waits_for) {
    if (next < 0 || static_cast<std::size_t>(next) >= seen.size()) continue;
    seen[static_cast<std::size_t>(next)] = true;
    const End end = follow(question, activities, next, seen);
    if (badness(end.kind) > badness(worst.kind)) worst = end;
  }
  if (worst.kind == End::Kind::silent || worst.kind == End::Kind::absent) return worst;
  // The chain does not say; any member that is silent or has not come will do.
  for (const End::Kind kind : {End::Kind::silent, End::Kind::absent}) {
    for (int member : question.members) {
      if (member == question.self) continue;
      const RankActivity* activity = activity_of(activities, member);
      const bool silent = activity == nullptr;
      const bool absent = !silent && question.sequence != 0 && !has_entered(question, *activity);
      if (kind == End::Kind::silent ? silent : absent) return {kind, member};
    }
  }
  return worst;
}

std::string what_else(const Question& question, const RankActivity& activity) {
  const ContextActivity* context = activity.find(question.context);
  if (context == nullptr) return "it has no such communicator any more";
  if (context->recent.empty())
    return "it has made no collective call on this communicator yet and is busy in its own code";
  return fmt::format("its last collective here was {} ({}), and it is busy in its own code",
                     describe(context->recent.back()), ordinal(context->entered));
}

}  // namespace

Status mismatch_status(const std::vector<std::string>& names, int rank_a, const Call& call_a, int rank_b,
                       const Call& call_b) {
  const auto sentence = [&](int rank, const Call& call) {
    const auto index = static_cast<std::size_t>(rank);
    const std::string name = index < names.size() ? names[index] : fmt::format("rank {}", rank);
    if (call.kind >= CallKind::send) return fmt::format("{} calls {}", name, describe(call));
    return fmt::format("{} calls {} as its {} call", name, describe(call), ordinal(call.sequence));
  };
  std::string text = rank_a < rank_b ? sentence(rank_a, call_a) + "; " + sentence(rank_b, call_b)
                                     : sentence(rank_b, call_b) + "; " + sentence(rank_a, call_a);
  if (describe(call_a) == describe(call_b) && call_a.algorithm != call_b.algorithm) {
    text += fmt::format("; they chose different algorithms ({} and {}): give all ranks the same TRIREME_ALGORITHM",
                        call_a.algorithm, call_b.algorithm);
  } else if (call_a.kind >= CallKind::send) {
    text += ". A receive needs the count and type that were sent";
  } else {
    text += ". All ranks of a communicator must make the same calls in the same order";
  }
  return mismatch(text);
}

Verdict find_mismatch(const Question& question, const Activities& activities) {
  if (question.sequence == 0) return {};
  // The members' calls, by sequence number; the first disagreement is the cause.
  struct Said {
    int rank;
    Call call;
  };
  std::optional<std::pair<Said, Said>> first;
  std::vector<Said> known;
  for (int member : question.members) {
    const RankActivity* activity = activity_of(activities, member);
    const ContextActivity* context = activity == nullptr ? nullptr : activity->find(question.context);
    if (context == nullptr) continue;
    for (const Call& call : context->recent) {
      const auto same = std::find_if(known.begin(), known.end(),
                                     [&](const Said& said) { return said.call.sequence == call.sequence; });
      if (same == known.end()) {
        known.push_back({member, call});
      } else if (!(same->call == call) && (!first || call.sequence < first->first.call.sequence)) {
        first = {*same, {member, call}};
      }
    }
  }
  if (!first) return {};
  const auto& [a, b] = *first;
  return {mismatch_status(question.names, a.rank, a.call, b.rank, b.call), b.rank};
}

Verdict find_culprit(const Question& question, const Activities& activities) {
  if (Verdict verdict = find_mismatch(question, activities); !verdict.status.is_ok()) return verdict;
  const End end = find_end(question, activities);
  const std::string name = end.rank < 0 ? "" : name_of(question, end.rank);
  switch (end.kind) {
    case End::Kind::silent:
      return {deadline_exceeded(fmt::format("{}: {} does not answer: its process is stopped, has left, or its host is "
                                            "unreachable. Look at that process first",
                                            heading(question), name)),
              end.rank};
    case End::Kind::absent:
      return {deadline_exceeded(
                  fmt::format("{}: {} has not entered it: {}. If it is only slow, raise TRIREME_TIMEOUT_MS",
                              heading(question), name, what_else(question, *activity_of(activities, end.rank)))),
              end.rank};
    case End::Kind::moving:
      return {deadline_exceeded(fmt::format("{}: {} is in it but slow. If that is expected, raise TRIREME_TIMEOUT_MS",
                                            heading(question), name)),
              end.rank};
    case End::Kind::circle:
      break;
  }
  return {deadline_exceeded(heading(question) +
                            ": all ranks answer and wait for each other. Look for a receive without a send, or for "
                            "communicators used in an order that cannot end"),
          -1};
}

}  // namespace trireme
