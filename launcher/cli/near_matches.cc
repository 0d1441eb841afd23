#include "launcher/cli/near_matches.h"

#include <algorithm>

namespace trireme {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      const std::size_t replaced = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({replaced, cost[i - 1][j] + 1, cost[i][j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& known) {
  if (name.size() > 100) return "";
  const std::size_t allowed = std::max<std::size_t>(1, name.size() / 3);
  std::string text;
  for (const std::string& candidate : known) {
    if (edit_distance(name, candidate) > allowed) continue;
    text += (text.empty() ? ": did you mean '" : "' or '") + candidate;
  }
  return text.empty() ? text : text + "'?";
}

}  // namespace trireme
