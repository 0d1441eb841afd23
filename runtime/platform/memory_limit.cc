#include <algorithm>
#include <charconv>
#include <optional>
#include <string>

#include "runtime/platform/api/files.h"
#include "runtime/platform/api/system.h"

namespace trireme {
namespace {

std::optional<std::uint64_t> number_at(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  std::uint64_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> number_in_file(const std::string& path) {
  const Result<std::string> text = read_file(path);
  return text.is_ok() ? number_at(*text) : std::nullopt;
}

// The number after `key` at the beginning of a line.
std::optional<std::uint64_t> number_after(const std::string& text, std::string_view key) {
  for (std::size_t line = 0; line < text.size();) {
    if (text.compare(line, key.size(), key) == 0) return number_at(std::string_view(text).substr(line + key.size()));
    const std::size_t end = text.find('\n', line);
    line = end == std::string::npos ? text.size() : end + 1;
  }
  return std::nullopt;
}

struct GroupFiles {
  const char* limit;
  const char* usage;
  const char* reclaimable;  // A key of memory.stat.
};
constexpr GroupFiles kVersion1{"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file "};
constexpr GroupFiles kVersion2{"/memory.max", "/memory.current", "inactive_file "};

// What the limit of one group leaves, or no limit ("max", no such file). The statistics,
// which the kernel sums up over all processors, are only read where the rest would not do.
std::uint64_t left_in_group(const std::string& folder, const GroupFiles& files, std::uint64_t enough) {
  const auto limit = number_in_file(folder + files.limit);
  const auto usage = number_in_file(folder + files.usage);
  if (!limit || !usage) return UINT64_MAX;
  if (*limit > *usage && *limit - *usage >= enough) return *limit - *usage;
  const Result<std::string> statistics = read_file(folder + "/memory.stat");
  const std::uint64_t reclaimable = statistics.is_ok() ? number_after(*statistics, files.reclaimable).value_or(0) : 0;
  const std::uint64_t used = *usage - std::min(*usage, reclaimable);
  return *limit > used ? *limit - used : 0;
}

// The least of what the group and those above it leave.
std::uint64_t left_in_groups(const std::string& root, std::string path, const GroupFiles& files, std::uint64_t enough) {
  std::uint64_t left = UINT64_MAX;
  while (true) {
    left = std::min(left, left_in_group(root + path, files, enough));
    const std::size_t slash = path.rfind('/');
    if (path.empty() || slash == std::string::npos) return left;
    path.resize(slash);
  }
}

std::uint64_t left_in_control_groups(std::uint64_t enough) {
  const Result<std::string> groups = read_file("/proc/self/cgroup");
  if (!groups.is_ok()) return UINT64_MAX;
  std::uint64_t left = UINT64_MAX;
  for (std::size_t line = 0; line < groups->size();) {
    std::size_t end = groups->find('\n', line);
    if (end == std::string::npos) end = groups->size();
    const std::string text = groups->substr(line, end - line);
    const std::size_t path = text.rfind(":/");
    if (path != std::string::npos && text.find(":memory:") != std::string::npos) {
      left = std::min(left, left_in_groups("/sys/fs/cgroup/memory", text.substr(path + 1), kVersion1, enough));
    } else if (path != std::string::npos && text.rfind("0::", 0) == 0) {
      left = std::min(left, left_in_groups("/sys/fs/cgroup", text.substr(path + 1), kVersion2, enough));
    }
    line = end + 1;
  }
  return left;
}

}  // namespace

std::uint64_t available_memory_bytes(std::uint64_t enough) {
  std::uint64_t available = UINT64_MAX;
  const Result<std::string> machine = read_file("/proc/meminfo");
  if (machine.is_ok()) {
    if (const auto kib = number_after(*machine, "MemAvailable:")) available = *kib * 1024;
  }
  return std::min(available, left_in_control_groups(enough));
}

}  // namespace trireme
