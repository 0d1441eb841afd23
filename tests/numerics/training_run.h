// What a run of trireme-gpt leaves: its processes and its metrics file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::test {

// The process whose command line contains `argument` and whose environment says
// TRIREME_RANK=rank; -1 when there is none.
std::int64_t process_of_rank(const std::string& argument, int rank);

// The part of every line of a metrics file that must be the same bytes in equal runs:
// "loss":...,"grad_norm":...
std::vector<std::string> loss_columns(const std::string& metrics_path);
std::vector<double> losses(const std::string& metrics_path);

}  // namespace trireme::test
