// Report: nccl-tests' table on stdout, rows as JSON in a file.
#pragma once

#include <string>
#include <vector>

#include <trireme/base/status.h>
#include <trireme/rendezvous/world.h>

#include "bench/collective_perf/measure.h"

namespace trireme::bench {

void print_header(const PerfOptions& options, const std::vector<std::string>& ranks);
void print_row(const Row& row);
// Returns the number of wrong elements.
std::int64_t print_summary(const std::vector<Row>& rows, const PerfOptions& options);
// A list of {"op","type","redop","ranks","bytes","backend","in_place","time_us",
// "algbw_gb_s","busbw_gb_s","wrong"}, two per row.
Status write_json(const std::string& path, const std::vector<Row>& rows, const PerfOptions& options);

}  // namespace trireme::bench
