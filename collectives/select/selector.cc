#include "collectives/select/selector.h"

#include <algorithm>

#include <fmt/core.h>
#include <trireme/telemetry/log.h>

namespace trireme {
namespace {

// Formulas that are equal differ in their last bits: rounding is no reason to choose.
constexpr double kClearlyLess = 1 - 1e-9;

// Some request for this collective works, whatever its size.
bool works_for(const plan::Algorithm& algorithm, plan::Collective collective) {
  plan::Request request{collective, 2, 0, 0, 1, false};
  request.shared_memory = request.windows = true;
  return algorithm.supports(request);
}

Status apply(ForcedAlgorithms& forced, std::string_view part) {
  const std::size_t equals = part.find_first_of("=:");
  const std::string_view name = equals == std::string_view::npos ? part : part.substr(equals + 1);
  const plan::Algorithm* algorithm = plan::find_algorithm(name);
  if (algorithm == nullptr) {
    return invalid_argument(
        fmt::format("TRIREME_ALGORITHM: no algorithm is called '{}'; there are {}", name, algorithm_names()));
  }
  bool known = false;
  for (int i = 0; i < plan::kCollectiveCount; ++i) {
    const auto collective = static_cast<plan::Collective>(i);
    if (equals == std::string_view::npos) {
      if (works_for(*algorithm, collective)) forced.of[static_cast<std::size_t>(i)] = algorithm;
      known = true;
    } else if (part.substr(0, equals) == plan::to_string(collective)) {
      if (!works_for(*algorithm, collective)) {
        return invalid_argument(fmt::format("TRIREME_ALGORITHM: '{}' cannot do {} (it does {})", name,
                                            plan::to_string(collective), algorithm->constraint));
      }
      forced.of[static_cast<std::size_t>(i)] = algorithm;
      known = true;
    }
  }
  if (known) return {};
  std::string names;
  for (int i = 0; i < plan::kCollectiveCount; ++i) {
    names += (i == 0 ? "" : ", ") + std::string(plan::to_string(static_cast<plan::Collective>(i)));
  }
  return invalid_argument(
      fmt::format("TRIREME_ALGORITHM: no collective is called '{}'; there are {}", part.substr(0, equals), names));
}

}  // namespace

Result<ForcedAlgorithms> parse_forced_algorithms(std::string_view text) {
  ForcedAlgorithms forced;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    TRIREME_RETURN_IF_ERROR(apply(forced, part));
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  return forced;
}

Selector::Expectation Selector::expect(const plan::Algorithm& algorithm, const plan::Request& request) const {
  if (table_ != nullptr) {
    if (const auto seconds = table_->seconds(algorithm, request)) return {*seconds, true};
  }
  return {algorithm.cost(request, network_), false};
}

bool Selector::any_measured(const plan::Request& request) const {
  for (const plan::Algorithm& algorithm : plan::algorithms()) {
    if (algorithm.supports(request) && expect(algorithm, request).measured) return true;
  }
  return false;
}

const plan::Algorithm* Selector::choose(const plan::Request& request) const {
  const plan::Algorithm* forced = forced_.of[static_cast<std::size_t>(request.collective)];
  if (forced != nullptr && forced->supports(request)) return forced;
  const bool measured_only = any_measured(request);
  const plan::Algorithm* best = nullptr;
  double least = 0;
  for (const plan::Algorithm& algorithm : plan::algorithms()) {
    if (!algorithm.supports(request)) continue;
    const Expectation expected = expect(algorithm, request);
    if (measured_only && !expected.measured) continue;
    if (best == nullptr || expected.seconds < least * kClearlyLess) {
      best = &algorithm;
      least = expected.seconds;
    }
  }
  TRIREME_CHECK(best != nullptr, "a collective without an algorithm");
  return best;
}

std::string Selector::explain(const plan::Request& request) const {
  const plan::Algorithm* chosen = choose(request);
  const plan::Algorithm* forced = forced_.of[static_cast<std::size_t>(request.collective)];
  const bool measured_only = any_measured(request);
  std::string text = fmt::format("{} of {} bytes over {} ranks: {}, ", plan::to_string(request.collective),
                                 request.count * request.element_bytes, request.ranks, chosen->name);
  text += chosen == forced ? "because it was asked for\n"
          : measured_only  ? "because it took the least time when this machine was measured\n"
                           : "because it is expected to take the least time\n";
  for (const plan::Algorithm& algorithm : plan::algorithms()) {
    if (!works_for(algorithm, request.collective)) continue;
    if (algorithm.supports(request)) {
      const Expectation expected = expect(algorithm, request);
      text += fmt::format("  {:<20} {:12.1f} us {}\n", algorithm.name, expected.seconds * 1e6,
                          expected.measured ? "measured"
                          : measured_only   ? "expected, not measured: not considered"
                                            : "expected");
    } else {
      text += fmt::format("  {:<20} not possible: {}\n", algorithm.name, algorithm.constraint);
    }
  }
  text += fmt::format("  model: {:.1f} us a message, {:.2f} GB/s a path, {:.2f} GB/s of local work\n",
                      network_.alpha_s * 1e6, 1e-9 / network_.beta_s_per_byte, 1e-9 / network_.gamma_s_per_byte);
  return text;
}

void Selector::log_choice(const plan::Request& request) const {
  if (!log_enabled(LogLevel::debug, "tune")) return;
  const std::string text = explain(request);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    log_line(LogLevel::debug, "tune", std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
  }
}

}  // namespace trireme
