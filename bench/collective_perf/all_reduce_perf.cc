#include "bench/collective_perf/perf_main.h"

int main(int argc, char** argv) {
  return trireme::bench::perf_main({"all_reduce_perf", "all_reduce", trireme::plan::Collective::all_reduce}, argc,
                                   argv);
}
