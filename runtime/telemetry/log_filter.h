// LogFilter: what TRIREME_LOG says, parsed. A value without state.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include <trireme/base/status.h>
#include <trireme/telemetry/log.h>

namespace trireme {

struct LogFilter {
  LogLevel level = LogLevel::warn;  // Of topics not named.
  std::map<std::string, LogLevel, std::less<>> topics;

  // "info", "tune=debug,transport=info", "error,tune=debug".
  // Errors: invalid_argument naming the part that is wrong and what is accepted.
  static Result<LogFilter> parse(std::string_view text);
  LogLevel level_of(std::string_view topic) const;
  // The lowest level any topic shows: below it nothing needs a look at the topic.
  LogLevel lowest() const;
};

}  // namespace trireme
