#include "bench/collective_perf/limit_loops.h"

namespace trireme::bench {

void add_streams_avx2(const Streams& streams, bool past_caches) {
  add_all(streams, past_caches);
}

}  // namespace trireme::bench
