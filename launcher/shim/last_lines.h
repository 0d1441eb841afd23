// The last lines a rank wrote, for the report of its failure. Thread safety: none.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

inline constexpr std::size_t kLastLines = 20;
inline constexpr std::size_t kLastLineBytes = 500;

class LastLines {
 public:
  void add(std::string_view line);
  std::vector<std::string> lines() const { return {lines_.begin(), lines_.end()}; }

 private:
  std::deque<std::string> lines_;
};

}  // namespace trireme
