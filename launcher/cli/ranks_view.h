// How `trireme ranks` shows a job: a table for people, JSON for programs. Free functions
// of values.
#pragma once

#include <string>
#include <vector>

#include "runtime/telemetry/api/inspect.h"
#include "runtime/telemetry/api/verdict.h"

namespace trireme {

struct JudgedJob {
  JobView job;
  JobVerdict verdict;
};

// The job's ranks, a line each, then the verdict.
std::string ranks_table(const JudgedJob& judged);
// {"jobs": [{"job_id", "size", "program", "well", "verdict", "ranks"}]}
std::string ranks_json(const std::vector<JudgedJob>& jobs);

}  // namespace trireme
