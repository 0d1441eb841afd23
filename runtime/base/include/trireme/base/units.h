// Sizes, durations and rates as people write and read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <trireme/base/status.h>

namespace trireme {

inline constexpr std::size_t kKiB = std::size_t{1} << 10;
inline constexpr std::size_t kMiB = std::size_t{1} << 20;
inline constexpr std::size_t kGiB = std::size_t{1} << 30;

// "8", "64K", "1M", "2G", "4MiB", "100kb" (all powers of 1024, as in nccl-tests).
// Errors: invalid_argument naming the text and the forms accepted; overflow too.
Result<std::uint64_t> parse_bytes(std::string_view text);
// "512 B", "1.5 KiB", "64 MiB".
std::string format_bytes(std::uint64_t bytes);
// "850 ms", "12.3 s", "4 min 05 s", "2 h 10 min".
std::string format_duration_ms(std::uint64_t duration_ms);

}  // namespace trireme
