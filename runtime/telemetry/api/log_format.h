// TRIREME_LOG_*: formatted logging for our own code. The arguments are evaluated only
// when the level is enabled for the topic.
#pragma once

#include <fmt/core.h>

#include <trireme/telemetry/log.h>

#define TRIREME_LOG_AT(level, topic, ...)                                                                    \
  do {                                                                                                       \
    if (::trireme::log_enabled(level, topic)) ::trireme::log_line(level, topic, ::fmt::format(__VA_ARGS__)); \
  } while (false)
#define TRIREME_LOG_DEBUG(topic, ...) TRIREME_LOG_AT(::trireme::LogLevel::debug, topic, __VA_ARGS__)
#define TRIREME_LOG_INFO(topic, ...) TRIREME_LOG_AT(::trireme::LogLevel::info, topic, __VA_ARGS__)
#define TRIREME_LOG_WARN(topic, ...) TRIREME_LOG_AT(::trireme::LogLevel::warn, topic, __VA_ARGS__)
#define TRIREME_LOG_ERROR(topic, ...) TRIREME_LOG_AT(::trireme::LogLevel::error, topic, __VA_ARGS__)
