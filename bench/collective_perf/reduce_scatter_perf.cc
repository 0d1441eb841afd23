#include "bench/collective_perf/perf_main.h"

int main(int argc, char** argv) {
  return trireme::bench::perf_main({"reduce_scatter_perf", "reduce_scatter", trireme::plan::Collective::reduce_scatter},
                                   argc, argv);
}
