// Environment variables: the one list of those Trireme reads, and the only getenv.
//
// Every variable is declared in environment.cc with its default and meaning;
// `trireme environment` prints the list. Reading a name that is not on the list stops
// the program, so the list stays complete. Variables of other systems (Open MPI, PMIx,
// Slurm) that we read are on the list too.
// Thread safety: safe as long as nobody calls setenv at the same time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <trireme/base/status.h>

namespace trireme {

struct EnvironmentVariable {
  std::string_view name;
  std::string_view default_value;  // "" when there is none.
  std::string_view meaning;
};

const std::vector<EnvironmentVariable>& environment_variables();

// The value, or nullopt when unset or empty.
std::optional<std::string> environment(std::string_view name);
// The value as an integer in [low, high], or `fallback` when unset.
// Errors: invalid_argument naming variable, value and range.
Result<std::int64_t> environment_integer(std::string_view name, std::int64_t fallback, std::int64_t low,
                                         std::int64_t high);

}  // namespace trireme
