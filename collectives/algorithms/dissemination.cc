// Dissemination barrier: in step k every rank tells the rank 2^k further on that it has
// come, and waits for the rank 2^k before it.
//
// After step k a rank knows of the 2^(k+1) ranks before it, so after ceil(log2 P) steps
// of all. The messages are empty; the signature that begins every message is the token.
// Source: Hensgen, Finkel, Manber, "Two algorithms for barrier synchronization", 1988.
#include <bit>

#include "collectives/algorithms/algorithm.h"
#include "collectives/algorithms/builder.h"

namespace trireme::plan {
namespace {

Program program(const Request& request, int rank) {
  const int n = request.ranks;
  const Affine zero = fixed(0);
  Builder builder(request, rank, 1);
  for (int distance = 1; distance < n; distance *= 2) {
    builder.loop(1)
        .add(send(input(zero), fixed((rank + distance) % n), zero))
        .add(receive(output(zero), fixed((rank + n - distance) % n), zero));
  }
  return builder.take();
}

bool supports(const Request& request) {
  return request.collective == Collective::barrier && request.count == 0;
}

double cost(const Request& request, const Network& network) {
  return std::bit_width(static_cast<unsigned>(request.ranks - 1)) * network.alpha_s;
}

}  // namespace

const Algorithm kDissemination = {"dissemination", "barrier; any number of ranks", supports, program, cost};

}  // namespace trireme::plan
