// Measures every pair of ranks, one pair at a time, and what all do at once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <trireme/base/status.h>
#include <trireme/collectives/communicator.h>
#include <trireme/topology/topology.h>

namespace trireme::bench {

struct MatrixOptions {
  std::uint64_t bytes = 4 << 20;  // Of a message of the bandwidth test.
  int iterations = 20;
  int pings = 300;
};

struct Matrix {
  int ranks = 0;
  std::vector<double> latency_us;        // [from * ranks + to]: half of a round trip of 8 bytes.
  std::vector<double> bytes_per_second;  // One direction, messages of the size asked for.
  std::vector<std::string> transports;   // What the pair uses.
  double all_bytes_per_second = 0;       // Sum over the ranks, all sending to their neighbour at once.
  double work_bytes_per_second = 0;      // One rank adding one buffer to another, all ranks at once.
  std::size_t at(int from, int to) const {
    return static_cast<std::size_t>(from) * static_cast<std::size_t>(ranks) + static_cast<std::size_t>(to);
  }
};

// Collective; all ranks get the whole. Medians. Errors: what the communicator returns.
Result<Matrix> measure_matrix(Communicator& communicator, const MatrixOptions& options);

// Adds the measured links to the job's graph: one per ordered pair of ranks, each rank's
// own work, and, when all ranks share one host, what its memory carries in all.
void add_measured_links(Topology& topology, const Matrix& matrix);

}  // namespace trireme::bench
