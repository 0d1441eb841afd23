#include "bench/collective_perf/perf_main.h"

int main(int argc, char** argv) {
  return trireme::bench::perf_main({"broadcast_perf", "broadcast", trireme::plan::Collective::broadcast}, argc, argv);
}
