#include "bench/collective_perf/perf_main.h"

int main(int argc, char** argv) {
  return trireme::bench::perf_main({"all_gather_perf", "all_gather", trireme::plan::Collective::all_gather}, argc,
                                   argv);
}
