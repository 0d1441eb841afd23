#include "runtime/transport/selector.h"

#include <fmt/core.h>

namespace trireme {
namespace {

using Candidate = PathChoice::Candidate;

bool better(const Candidate& a, const Candidate& b) {
  if (a.reach.bytes_per_second != b.reach.bytes_per_second) {
    return a.reach.bytes_per_second > b.reach.bytes_per_second;
  }
  return a.reach.latency_us < b.reach.latency_us;
}

PathChoice choose_forced(PathChoice choice, std::string_view forced) {
  std::string known;
  for (const Candidate& candidate : choice.candidates) {
    known += (known.empty() ? "" : ", ") + candidate.transport;
    if (candidate.transport != forced) continue;
    if (candidate.reach.possible) {
      choice.transport = candidate.transport;
      choice.reason = fmt::format("{} because it is forced ({})", forced, candidate.reach.reason);
    } else {
      choice.reason = fmt::format("{} is forced but cannot carry this pair: {}", forced, candidate.reach.reason);
    }
    return choice;
  }
  choice.reason = fmt::format("{} is forced but this build has no such transport (it has: {})", forced, known);
  return choice;
}

std::string all_reasons(const std::vector<Candidate>& candidates) {
  std::string text = "no transport can carry this pair";
  for (const Candidate& candidate : candidates)
    text += fmt::format("; {}: {}", candidate.transport, candidate.reach.reason);
  return text;
}

}  // namespace

PathChoice choose_path(std::vector<Candidate> candidates, std::string_view forced) {
  PathChoice choice;
  choice.candidates = std::move(candidates);
  if (!forced.empty()) return choose_forced(std::move(choice), forced);
  const Candidate* best = nullptr;
  int possible = 0;
  for (const Candidate& candidate : choice.candidates) {
    if (!candidate.reach.possible) continue;
    ++possible;
    if (best == nullptr || better(candidate, *best)) best = &candidate;
  }
  if (best == nullptr) {
    choice.reason = all_reasons(choice.candidates);
    return choice;
  }
  choice.transport = best->transport;
  choice.reason =
      fmt::format("{} because it is {} ({})", best->transport,
                  possible == 1 ? "the only path" : "the fastest of the possible paths", best->reach.reason);
  return choice;
}

}  // namespace trireme
