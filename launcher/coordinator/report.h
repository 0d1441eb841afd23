// Accounts of a finished job, for people and for machines. Free functions of values.
#pragma once

#include <string>

#include "launcher/coordinator/job_record.h"
#include "launcher/protocol/messages.h"

namespace trireme {

// Several lines that name the first rank to fail, what it said last and what the others
// did; "" when there is nothing to explain.
std::string failure_summary(const JobRecord& record, const JobSpec& job);

// One JSON object; docs/operating.md lists its fields.
std::string record_as_json(const JobRecord& record, const JobSpec& job);

}  // namespace trireme
