// The body of every *_perf program: flags, ranks, measurement, report.
// Runs alone (-t ranks as threads), under `trireme run`, mpirun and srun.
#pragma once

#include "bench/collective_perf/subject.h"

namespace trireme::bench {

// Returns the exit code: 0 all right, 1 wrong results or a failure, 2 bad flags.
int perf_main(const Subject& subject, int argc, char** argv);

}  // namespace trireme::bench
