#include "collectives/simulate/study.h"

#include <algorithm>

#include <fmt/core.h>

namespace trireme::simulate {

Result<plan::Collective> parse_collective(std::string_view name) {
  std::string known;
  for (int i = 0; i < plan::kCollectiveCount; ++i) {
    const auto collective = static_cast<plan::Collective>(i);
    if (plan::to_string(collective) == name) return collective;
    known += (known.empty() ? "" : ", ") + std::string(plan::to_string(collective));
  }
  return invalid_argument(fmt::format("no collective is called '{}'; expected one of {}", name, known));
}

plan::Request request_of(const Question& question) {
  plan::Request request;
  request.collective = question.collective;
  request.ranks = question.ranks;
  request.element_bytes = question.element_bytes;
  request.wide = question.wide && plan::reduces(question.collective);
  request.count = 1;
  const std::int64_t widest = std::max(plan::input_elements(request, 0), plan::output_elements(request, 0));
  const auto elements = static_cast<std::int64_t>(question.bytes) / question.element_bytes;
  request.count = question.collective == plan::Collective::barrier ? 0 : elements / std::max<std::int64_t>(widest, 1);
  return request;
}

double bus_bandwidth(const plan::Request& request, double seconds) {
  if (request.collective == plan::Collective::barrier || seconds <= 0) return 0;
  const std::int64_t elements = std::max(plan::input_elements(request, 0), plan::output_elements(request, 0));
  const double bytes = static_cast<double>(elements * request.element_bytes);
  const double others = static_cast<double>(request.ranks - 1) / request.ranks;
  double factor = others;  // Every rank keeps its own part of the larger buffer.
  if (request.collective == plan::Collective::all_reduce) factor = 2 * others;
  if (request.collective == plan::Collective::broadcast || request.collective == plan::Collective::reduce) factor = 1;
  return bytes * factor / seconds * 1e-9;
}

Result<std::vector<Candidate>> study(const Question& question, const plan::NetworkModel& network) {
  if (!question.algorithm.empty() && plan::find_algorithm(question.algorithm) == nullptr) {
    std::string known;
    for (const plan::Algorithm& algorithm : plan::algorithms()) {
      known += (known.empty() ? "" : ", ") + std::string(algorithm.name);
    }
    return invalid_argument(fmt::format("no algorithm is called '{}'; there are {}", question.algorithm, known));
  }
  plan::Request request = request_of(question);
  request.ranks_per_host = network.ranks_per_host();
  std::vector<Candidate> candidates;
  for (const plan::Algorithm& algorithm : plan::algorithms()) {
    if (!question.algorithm.empty() && question.algorithm != algorithm.name) continue;
    Candidate candidate;
    candidate.algorithm = algorithm.name;
    if (!algorithm.supports(request)) {
      candidate.refused = fmt::format("not possible: {}", algorithm.constraint);
    } else {
      const auto replayed = plan::replay(
          request, [&](int rank) { return algorithm.program(request, rank); }, network, question.options);
      if (replayed.is_ok()) {
        candidate.replay = replayed.value();
        candidate.busbw_gb_s = bus_bandwidth(request, candidate.replay.seconds);
      } else {
        candidate.refused = replayed.status().message();
      }
    }
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

const Candidate* best_of(const std::vector<Candidate>& candidates) {
  const Candidate* best = nullptr;
  for (const Candidate& candidate : candidates) {
    if (!candidate.refused.empty()) continue;
    if (best == nullptr || candidate.replay.seconds < best->replay.seconds) best = &candidate;
  }
  return best;
}

}  // namespace trireme::simulate
