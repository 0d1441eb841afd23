// Report: nccl-tests' table on stdout, rows as JSON in a file.
#pragma once

#include <string>
#include <vector>

#include <trireme/base/status.h>
#include <trireme/rendezvous/world.h>

#include "bench/collective_perf/measure.h"

namespace trireme::bench {

// `backends`: what is measured, with versions.
void print_header(const PerfOptions& options, const std::vector<std::string>& ranks,
                  const std::vector<std::string>& backends);
// With --compare also the backend, and its time as a multiple of the first one's.
void print_row(const Row& row, const PerfOptions& options);
void print_refusal(const Status& why);
// Returns the number of wrong elements.
std::int64_t print_summary(const std::vector<Row>& rows, const PerfOptions& options);
// A list of {"op","type","redop","ranks","bytes","backend","in_place","time_us",
// "algbw_gb_s","busbw_gb_s","limit_gb_s","wrong"}, two per row; the limit where it was measured.
Status write_json(const std::string& path, const std::vector<Row>& rows);

}  // namespace trireme::bench
