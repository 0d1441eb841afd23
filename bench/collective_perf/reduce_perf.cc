#include "bench/collective_perf/perf_main.h"

int main(int argc, char** argv) {
  return trireme::bench::perf_main({"reduce_perf", "reduce", trireme::plan::Collective::reduce}, argc, argv);
}
