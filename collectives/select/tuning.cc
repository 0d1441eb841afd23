#include "collectives/select/tuning.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include <fmt/core.h>
#include <trireme/base/hash.h>
#include <trireme/platform/environment.h>
#include <trireme/telemetry/log.h>
#include <nlohmann/json.hpp>

#include "runtime/platform/api/files.h"
#include "runtime/platform/api/system.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::string_view kFormat = "trireme-tuning/1";
constexpr std::size_t kMostTimes = 4096;

bool is_good(double value) {
  return std::isfinite(value) && value > 0;
}

Result<TunedTime> parse_time(const Json& object) {
  TunedTime time;
  const auto op = object.at("op").get<std::string>();
  bool known = false;
  for (int i = 0; i < plan::kCollectiveCount; ++i) {
    if (plan::to_string(static_cast<plan::Collective>(i)) != op) continue;
    time.collective = static_cast<plan::Collective>(i);
    known = true;
  }
  time.algorithm = object.at("algorithm").get<std::string>();
  time.bytes = object.at("bytes").get<std::int64_t>();
  time.seconds = object.at("time_us").get<double>() * 1e-6;
  if (!known) return invalid_argument("tuning table: unknown op '" + op + "'");
  if (time.bytes <= 0 || !is_good(time.seconds)) {
    return invalid_argument(
        fmt::format("tuning table: {} by {}: bytes and time_us must be above 0", op, time.algorithm));
  }
  return time;
}

Result<TuningTable> parse_document(const Json& document) {
  const auto format = document.at("format").get<std::string>();
  if (format != kFormat) {
    return invalid_argument(fmt::format("tuning table: format is '{}'; this version reads '{}'", format, kFormat));
  }
  TuningTable table;
  table.machine = document.at("machine").get<std::string>();
  table.algorithms = document.at("algorithms").get<std::string>();
  table.ranks = document.at("ranks").get<int>();
  const Json& network = document.at("network");
  table.network.alpha_s = network.at("latency_us").get<double>() * 1e-6;
  const auto path = network.at("bytes_per_second").get<double>();
  const auto work = network.at("work_bytes_per_second").get<double>();
  if (table.ranks < 2 || !is_good(table.network.alpha_s) || !is_good(path) || !is_good(work)) {
    return invalid_argument("tuning table: ranks must be 2 or more, and the network's figures above 0");
  }
  table.network.beta_s_per_byte = 1 / path;
  table.network.gamma_s_per_byte = 1 / work;
  if (document.at("times").size() > kMostTimes) return invalid_argument("tuning table: too many times");
  for (const Json& object : document.at("times")) {
    TRIREME_ASSIGN_OR_RETURN(TunedTime time, parse_time(object));
    table.times.push_back(std::move(time));
  }
  std::stable_sort(table.times.begin(), table.times.end(), [](const TunedTime& a, const TunedTime& b) {
    return std::tie(a.collective, a.algorithm, a.bytes) < std::tie(b.collective, b.algorithm, b.bytes);
  });
  return table;
}

std::string model_name() {
  const Result<std::string> text = read_file("/proc/cpuinfo");
  if (!text.is_ok()) return "unknown";
  const std::size_t at = text->find("model name");
  return at == std::string::npos ? "unknown" : text->substr(at, text->find('\n', at) - at);
}

}  // namespace

std::optional<double> TuningTable::seconds(const plan::Algorithm& algorithm, const plan::Request& request) const {
  if (request.ranks != ranks || request.wide || request.uneven() || request.ordered) return std::nullopt;
  const std::int64_t elements = std::max(plan::input_elements(request, 0), plan::output_elements(request, 0));
  const auto bytes = static_cast<double>(std::max<std::int64_t>(1, elements * request.element_bytes));
  const TunedTime* below = nullptr;
  for (const TunedTime& time : times) {
    if (time.collective != request.collective || time.algorithm != algorithm.name) continue;
    const auto size = static_cast<double>(time.bytes);
    if (size < bytes) {
      below = &time;
      continue;
    }
    if (below == nullptr) return time.seconds;
    const auto low = static_cast<double>(below->bytes);
    const double place = std::log(bytes / low) / std::log(size / low);
    return below->seconds * std::pow(time.seconds / below->seconds, place);
  }
  if (below == nullptr) return std::nullopt;
  return below->seconds * bytes / static_cast<double>(below->bytes);
}

std::string tuning_to_json(const TuningTable& table) {
  Json document = {{"format", kFormat},
                   {"machine", table.machine},
                   {"algorithms", table.algorithms},
                   {"ranks", table.ranks},
                   {"network",
                    {{"latency_us", table.network.alpha_s * 1e6},
                     {"bytes_per_second", 1 / table.network.beta_s_per_byte},
                     {"work_bytes_per_second", 1 / table.network.gamma_s_per_byte}}},
                   {"times", Json::array()}};
  for (const TunedTime& time : table.times) {
    document["times"].push_back({{"op", plan::to_string(time.collective)},
                                 {"algorithm", time.algorithm},
                                 {"bytes", time.bytes},
                                 {"time_us", time.seconds * 1e6}});
  }
  return document.dump(1) + "\n";
}

Result<TuningTable> tuning_from_json(std::string_view text) {
  try {
    return parse_document(Json::parse(text));
  } catch (const Json::exception& error) {
    return invalid_argument(std::string("tuning table: not the JSON this version reads: ") + error.what());
  }
}

std::string algorithm_names() {
  std::string names;
  for (const plan::Algorithm& algorithm : plan::algorithms()) {
    names += (names.empty() ? "" : ", ") + std::string(algorithm.name);
  }
  return names;
}

std::string machine_identity() {
  return fmt::format("{:016x}", hash64(fmt::format("{}/{} cores", model_name(), usable_cpu_count())));
}

Result<std::string> tuning_path() {
  if (const auto named = environment("TRIREME_TUNING")) return *named;
  std::string folder;
  if (const auto cache = environment("XDG_CACHE_HOME")) {
    folder = *cache;
  } else if (const auto home = environment("HOME")) {
    folder = *home + "/.cache";
  } else {
    return not_found("no folder for the tuning table: set TRIREME_TUNING, XDG_CACHE_HOME or HOME");
  }
  return folder + "/trireme/tuning-" + machine_identity() + ".json";
}

std::string load_tuning() {
  const Result<std::string> path = tuning_path();
  if (!path.is_ok()) return "";
  Result<std::string> text = read_file(*path);
  if (!text.is_ok()) {
    if (environment("TRIREME_TUNING")) log_line(LogLevel::warn, "tune", "TRIREME_TUNING: " + text.status().message());
    return "";
  }
  const Result<TuningTable> table = tuning_from_json(*text);
  if (!table.is_ok()) {
    log_line(LogLevel::warn, "tune", fmt::format("{} is not used: {}", *path, table.status().message()));
    return "";
  }
  if (table->machine != machine_identity()) {
    log_line(LogLevel::warn, "tune",
             fmt::format("{} is not used: it was measured on machine {}, this is {}; run trireme tune here", *path,
                         table->machine, machine_identity()));
    return "";
  }
  if (table->algorithms != algorithm_names()) {
    log_line(LogLevel::warn, "tune",
             fmt::format("{} is not used: it was measured with other algorithms ({}); run trireme tune again", *path,
                         table->algorithms));
    return "";
  }
  return std::move(text).value();
}

}  // namespace trireme
