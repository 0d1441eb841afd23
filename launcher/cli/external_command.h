// Commands that other folders build: `trireme X` runs libexec/trireme/trireme-X, found
// relative to this program's own file, in its place (same process, same streams).
#pragma once

#include <string>
#include <vector>

namespace trireme {

// Replaces this process. Returns only when it failed: 2 for a name nobody knows, with
// the names that come near.
int run_external_command(const std::string& name, const std::vector<std::string>& arguments);
// Their names, sorted.
std::vector<std::string> external_commands();

}  // namespace trireme
