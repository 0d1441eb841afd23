#include <trireme/base/units.h>

#include <cctype>
#include <cstdio>
#include <limits>

namespace trireme {

Result<std::uint64_t> parse_bytes(std::string_view text) {
  const auto malformed = [&] {
    return invalid_argument("size '" + std::string(text) +
                            "' is not a number of bytes; write digits and an optional unit, as in 8, 64K, 4MiB or 2G");
  };
  const auto too_large = [&] {
    return invalid_argument("size '" + std::string(text) + "' is 2^64 bytes or more; write a smaller one");
  };
  std::uint64_t value = 0;
  std::size_t at = 0;
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  for (; at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])); ++at) {
    const auto digit = static_cast<std::uint64_t>(text[at] - '0');
    if (value > (kMax - digit) / 10) return too_large();
    value = value * 10 + digit;
  }
  if (at == 0) return malformed();
  std::string unit;
  for (; at < text.size(); ++at) unit += static_cast<char>(std::tolower(static_cast<unsigned char>(text[at])));
  int shift = 0;
  if (!unit.empty() && unit != "b") {
    const std::string_view letters = "kmgt";
    const std::size_t index = letters.find(unit[0]);
    const std::string_view rest = std::string_view(unit).substr(1);
    if (index == std::string_view::npos || !(rest.empty() || rest == "b" || rest == "ib")) return malformed();
    shift = 10 * (static_cast<int>(index) + 1);
  }
  if (shift > 0 && value > (kMax >> shift)) return too_large();
  return value << shift;
}

std::string format_bytes(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  int unit = 0;
  auto value = static_cast<double>(bytes);
  // 1023.95 and more would be printed as 1024.0: it belongs to the next unit.
  while (unit < 6 && value >= (unit == 0 ? 1024.0 : 1023.95)) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  std::string number(text);
  if (number.ends_with(".0")) number.resize(number.size() - 2);
  return number + " " + kUnits[unit];
}

std::string format_duration_ms(std::uint64_t duration_ms) {
  char text[48];
  // From 59.95 s on, "60.0 s" would be printed: that is a minute.
  const std::uint64_t seconds = duration_ms < 60'000 && duration_ms >= 59'950 ? 60 : duration_ms / 1000;
  if (duration_ms < 1000) {
    std::snprintf(text, sizeof text, "%llu ms", static_cast<unsigned long long>(duration_ms));
  } else if (duration_ms < 59'950) {
    std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(duration_ms) / 1000);
  } else if (seconds < 3600) {
    std::snprintf(text, sizeof text, "%llu min %02llu s", static_cast<unsigned long long>(seconds / 60),
                  static_cast<unsigned long long>(seconds % 60));
  } else {
    std::snprintf(text, sizeof text, "%llu h %02llu min", static_cast<unsigned long long>(seconds / 3600),
                  static_cast<unsigned long long>(seconds / 60 % 60));
  }
  return text;
}

}  // namespace trireme
