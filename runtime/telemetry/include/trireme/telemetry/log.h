// Logging: one line a record, to stderr, filtered by TRIREME_LOG.
//
// TRIREME_LOG is a level ("trace", "debug", "info", "warn", "error", "off"; default
// "warn") or a list of topics with levels: "tune=debug,transport=info"; "tune" alone is tune=debug. A line reads
//   2026-11-30T12:00:00.123Z W host:rank topic message
// The first function that decides that something is an error logs it; callers add
// context to the Status and do not log again.
// Thread safety: all functions; lines never interleave.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

enum class LogLevel { trace, debug, info, warn, error, off };

bool log_enabled(LogLevel level, std::string_view topic);
void log_line(LogLevel level, std::string_view topic, std::string_view message);
// Shown in every line from now on ("node3:7"); set once rank and host are known.
void set_log_identity(std::string_view identity);
// Replaces what TRIREME_LOG says. Errors are logged and leave the filter unchanged.
void set_log_filter(std::string_view filter);

}  // namespace trireme
