#include "bench/collective_perf/perf_main.h"

int main(int argc, char** argv) {
  return trireme::bench::perf_main({"gather_perf", "gather", trireme::plan::Collective::gather}, argc, argv);
}
