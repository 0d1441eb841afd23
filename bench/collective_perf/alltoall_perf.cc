#include "bench/collective_perf/perf_main.h"

int main(int argc, char** argv) {
  return trireme::bench::perf_main({"alltoall_perf", "all_to_all", trireme::plan::Collective::all_to_all}, argc, argv);
}
