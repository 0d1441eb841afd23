// Prometheus' text format: a HELP and a TYPE line for each family, then its samples.
// Names end in their unit and, for counters, in _total; a family's samples stay together.
#include <algorithm>
#include <map>

#include <fmt/core.h>

#include "runtime/telemetry/api/inspect.h"

namespace trireme {
namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

std::string rank_labels(const Recording& recording) {
  return fmt::format("trireme_job=\"{}\",rank=\"{}\"", escaped(recording.identity.job_id), recording.identity.rank);
}

std::string call_labels(const Recording& recording, const CallCounters& counters) {
  return fmt::format("{},op=\"{}\",algorithm=\"{}\",transport=\"{}\"", rank_labels(recording), escaped(counters.op),
                     escaped(counters.algorithm), escaped(counters.transports));
}

std::string family(std::string_view name, std::string_view type, std::string_view help) {
  return fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

std::string bound(std::size_t i) {
  const std::uint64_t ns = bucket_bound_ns(i);
  return ns == UINT64_MAX ? "+Inf" : fmt::format("{:g}", static_cast<double>(ns) * 1e-9);
}

std::string durations(const std::vector<Recording>& recordings) {
  constexpr std::string_view kName = "trireme_call_duration_seconds";
  std::string text = family(kName, "histogram", "Time from the start of a call to its end, of calls that ended well.");
  for (const Recording& recording : recordings) {
    for (const CallCounters& counters : recording.counters) {
      const std::string labels = call_labels(recording, counters);
      std::uint64_t calls = 0;
      for (std::size_t i = 0; i < counters.buckets.size(); ++i) {
        calls += counters.buckets[i];
        text += fmt::format("{}_bucket{{{},le=\"{}\"}} {}\n", kName, labels, bound(i), calls);
      }
      text += fmt::format("{}_sum{{{}}} {:.9f}\n", kName, labels, static_cast<double>(counters.nanoseconds) * 1e-9);
      text += fmt::format("{}_count{{{}}} {}\n", kName, labels, calls);
    }
  }
  return text;
}

std::string call_counters(const std::vector<Recording>& recordings) {
  std::string bytes = family("trireme_call_bytes_total", "counter",
                             "Bytes of the elements that callers gave, of calls that ended well.");
  std::string failures = family("trireme_call_failures_total", "counter", "Calls that ended with an error.");
  for (const Recording& recording : recordings) {
    for (const CallCounters& counters : recording.counters) {
      const std::string labels = call_labels(recording, counters);
      bytes += fmt::format("trireme_call_bytes_total{{{}}} {}\n", labels, counters.bytes);
      failures += fmt::format("trireme_call_failures_total{{{}}} {}\n", labels, counters.failures);
    }
  }
  return bytes + failures;
}

std::string gauges(const std::vector<Recording>& recordings) {
  std::string pending = family("trireme_calls_pending", "gauge", "Calls that were entered and have not ended.");
  std::string open = family("trireme_communicators", "gauge", "Communicators of more than one rank.");
  std::string up = family("trireme_rank_info", "gauge", "1 for each rank, with where it runs.");
  for (const Recording& recording : recordings) {
    const std::string labels = rank_labels(recording);
    std::uint64_t calls = 0;
    std::uint64_t communicators = 0;
    for (const RecordedCommunicator& communicator : recording.communicators) {
      if (!communicator.open) continue;
      ++communicators;
      calls += static_cast<std::uint64_t>(std::count_if(communicator.recent.begin(), communicator.recent.end(),
                                                        [](const RecordedCall& call) { return call.pending(); }));
    }
    pending += fmt::format("trireme_calls_pending{{{}}} {}\n", labels, calls);
    open += fmt::format("trireme_communicators{{{}}} {}\n", labels, communicators);
    up += fmt::format("trireme_rank_info{{{},host=\"{}\",pid=\"{}\",epoch=\"{}\"}} 1\n", labels,
                      escaped(recording.identity.host), recording.pid, recording.identity.epoch);
  }
  return pending + open + up;
}

std::string named(const std::vector<Recording>& recordings) {
  std::map<std::string, std::string> families;
  for (const Recording& recording : recordings) {
    for (const NamedValue& value : recording.named) {
      std::string& text = families[value.name];
      if (text.empty()) text = fmt::format("# TYPE {} {}\n", value.name, value.is_gauge ? "gauge" : "counter");
      text += fmt::format("{}{{{}{}{}}} {}\n", value.name, rank_labels(recording), value.labels.empty() ? "" : ",",
                          value.labels, value.value);
    }
  }
  std::string text;
  for (const auto& [name, samples] : families) text += samples;
  return text;
}

}  // namespace

std::string metrics_text(const std::vector<Recording>& recordings) {
  return call_counters(recordings) + durations(recordings) + gauges(recordings) + named(recordings);
}

}  // namespace trireme
