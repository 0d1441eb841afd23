#include "bench/collective_perf/perf_main.h"

int main(int argc, char** argv) {
  return trireme::bench::perf_main({"scatter_perf", "scatter", trireme::plan::Collective::scatter}, argc, argv);
}
