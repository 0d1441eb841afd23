#include "bench/collective_perf/perf_main.h"

int main(int argc, char** argv) {
  return trireme::bench::perf_main({"sendrecv_perf", "sendrecv", trireme::plan::Collective::broadcast, true}, argc,
                                   argv);
}
