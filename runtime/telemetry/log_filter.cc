#include "runtime/telemetry/log_filter.h"

#include <algorithm>
#include <array>
#include <optional>

namespace trireme {
namespace {

constexpr std::array<std::string_view, 6> kNames = {"trace", "debug", "info", "warn", "error", "off"};

// TRIREME_LOG=tune is short for tune=debug. Other words alone are taken for levels, so
// that a misspelt level is noticed.
constexpr std::string_view kTopicOfItsOwn = "tune";

std::optional<LogLevel> level_named(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<LogLevel>(found - kNames.begin());
}

}  // namespace

Result<LogFilter> LogFilter::parse(std::string_view text) {
  LogFilter filter;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    const std::size_t equals = part.find('=');
    const std::string_view name = equals == std::string_view::npos ? part : part.substr(equals + 1);
    if (part == kTopicOfItsOwn) {
      filter.topics[std::string(part)] = LogLevel::debug;
      begin = end + 1;
      continue;
    }
    const std::optional<LogLevel> level = level_named(name);
    if (!level || equals == 0) {
      return invalid_argument("log filter '" + std::string(text) + "': '" + std::string(part) +
                              "' is neither a level (trace, debug, info, warn, error, off) nor topic=level");
    }
    if (equals == std::string_view::npos) {
      filter.level = *level;
    } else {
      filter.topics[std::string(part.substr(0, equals))] = *level;
    }
    begin = end + 1;
  }
  return filter;
}

LogLevel LogFilter::level_of(std::string_view topic) const {
  const auto found = topics.find(topic);
  return found == topics.end() ? level : found->second;
}

LogLevel LogFilter::lowest() const {
  LogLevel lowest = level;
  for (const auto& [topic, topic_level] : topics) lowest = std::min(lowest, topic_level);
  return lowest;
}

}  // namespace trireme
