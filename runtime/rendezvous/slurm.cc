#include "runtime/rendezvous/slurm.h"

#include <algorithm>
#include <charconv>

#include <fmt/core.h>

#include <trireme/base/hash.h>

namespace trireme::store {
namespace {

constexpr std::size_t kMaxNames = 65'536;

Status malformed(std::string_view list, std::string_view part) {
  return invalid_argument(
      fmt::format("node list \"{}\": \"{}\" is not understood (expected names such as "
                  "node[01-03,7],login1)",
                  list, part));
}

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// "01-03" or "7": appends each number, at the width of the first.
Status expand_range(std::string_view list, std::string_view range, std::vector<std::string>& numbers) {
  const std::size_t dash = range.find('-');
  const std::string_view low_text = range.substr(0, dash);
  const std::string_view high_text = dash == std::string_view::npos ? low_text : range.substr(dash + 1);
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  if (!all_digits(low_text) || !all_digits(high_text) || low_text.size() > 18 || high_text.size() > 18) {
    return malformed(list, range);
  }
  std::from_chars(low_text.data(), low_text.data() + low_text.size(), low);
  std::from_chars(high_text.data(), high_text.data() + high_text.size(), high);
  if (high < low || high - low >= kMaxNames || numbers.size() + (high - low) >= kMaxNames)
    return malformed(list, range);
  for (std::uint64_t number = low; number <= high; ++number) {
    numbers.push_back(fmt::format("{:0{}}", number, low_text.size()));
  }
  return Status::ok();
}

// The names that one element of the list stands for: a product over its brackets.
Status expand_element(std::string_view list, std::string_view element, std::vector<std::string>& names) {
  std::vector<std::string> heads{""};
  std::string_view rest = element;
  while (!rest.empty()) {
    const std::size_t open = rest.find('[');
    for (std::string& head : heads) head += rest.substr(0, open);
    if (open == std::string_view::npos) break;
    const std::size_t close = rest.find(']', open);
    if (close == std::string_view::npos) return malformed(list, element);
    std::string_view ranges = rest.substr(open + 1, close - open - 1);
    std::vector<std::string> numbers;
    while (true) {
      const std::size_t comma = ranges.find(',');
      TRIREME_RETURN_IF_ERROR(expand_range(list, ranges.substr(0, comma), numbers));
      if (comma == std::string_view::npos) break;
      ranges.remove_prefix(comma + 1);
    }
    if (heads.size() * numbers.size() > kMaxNames) return malformed(list, element);
    std::vector<std::string> longer;
    for (const std::string& head : heads) {
      for (const std::string& number : numbers) longer.push_back(head + number);
    }
    heads.swap(longer);
    rest.remove_prefix(close + 1);
  }
  if (names.size() + heads.size() > kMaxNames) return malformed(list, element);
  for (std::string& name : heads) {
    if (name.empty() || name.find_first_of("[]") != std::string::npos) return malformed(list, element);
    names.push_back(std::move(name));
  }
  return Status::ok();
}

}  // namespace

Result<std::vector<std::string>> expand_nodelist(std::string_view text) {
  std::vector<std::string> names;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    if (c == '[') ++depth;
    if (c == ']') --depth;
    if (depth < 0 || depth > 1) return malformed(text, text.substr(begin, i - begin + 1));
    if (c != ',' || (depth != 0 && i < text.size())) continue;
    const std::string_view element = text.substr(begin, i - begin);
    if (element.empty() || depth != 0) return malformed(text, element);
    TRIREME_RETURN_IF_ERROR(expand_element(text, element, names));
    begin = i + 1;
  }
  return names;
}

std::vector<int> candidate_ports(std::string_view job_id) {
  const int first = kFirstPort + static_cast<int>(hash64(job_id) % kPortRange);
  std::vector<int> ports;
  for (int i = 0; i < kPortCandidates; ++i) ports.push_back(first + i);
  return ports;
}

}  // namespace trireme::store
