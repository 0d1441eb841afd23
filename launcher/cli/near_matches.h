// What someone who mistyped a name may have meant. Free functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Insertions, deletions, replacements and swaps of neighbours (Damerau 1964, restricted).
std::size_t edit_distance(std::string_view a, std::string_view b);
// ": did you mean 'run'?", or "" when nothing comes near.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& known);

}  // namespace trireme
