// A run as one HTML page that needs no network: plots of loss and throughput with the
// checkpoints and failures marked, and the events as a table.
#pragma once

#include <string>

#include "examples/report/run_record.h"

namespace trireme {

std::string report_to_html(const RunRecord& record);

}  // namespace trireme
