// Pairwise: in step d every rank sends to the rank d further on and receives from the
// rank d before it.
//
// Reduce-scatter: rank r sends chunk r+d of its input to rank r+d and adds what comes
// from r-d to its own chunk. All-gather: rank r sends its chunk to r+d. All-reduce is
// both. All-to-all: rank r sends part r+d, so that each step loads every link once. Cost for P ranks and S bytes
// (all-reduce): 2 (P - 1) messages of S / P bytes, as the ring, but inputs travel as they are, never as partial
// results: a low-precision type costs no more than its own bytes, and no step waits for a chain of others. Needs a path
// between every pair, so it suits shared memory and full crossbars.
#include "collectives/algorithms/algorithm.h"
#include "collectives/algorithms/builder.h"

namespace trireme::plan {
namespace {

// The result of chunk `rank` is finished in `result`.
void reduce_scatter_phase(Builder& builder, const Request& request, int rank, Reference result) {
  const int n = request.ranks;
  const Reference sum = request.wide ? scratch(fixed(0)) : result;
  const auto step = [&](int d, int iterations, Reference target, Reference own, bool finish) {
    const int stride = iterations > 1 ? 1 : 0;
    builder.loop(iterations)
        .add(send(input(around(rank + d, stride, n)), around(rank + d, stride, n), around(rank + d, stride, n)))
        .add(receive_after(target, own, around(rank - d, -stride, n), fixed(rank), Wire::element, finish));
  };
  if (n == 2) return step(1, 1, result, input(fixed(rank)), true);
  step(1, 1, sum, input(fixed(rank)), false);
  if (n > 3) step(2, n - 3, sum, sum, false);
  step(n - 1, 1, result, sum, true);
}

Program all_reduce(const Request& request, int rank) {
  const int n = request.ranks;
  Builder builder(request, rank, n);
  if (request.wide) builder.scratch(1);
  reduce_scatter_phase(builder, request, rank, output(fixed(rank)));
  builder.loop(n - 1)
      .add(send(output(fixed(rank)), around(rank + 1, 1, n), fixed(rank)))
      .add(receive(output(around(rank - 1, -1, n)), around(rank - 1, -1, n), around(rank - 1, -1, n)));
  return builder.take();
}

Program reduce_scatter(const Request& request, int rank) {
  Builder builder(request, rank, request.ranks);
  if (request.wide) builder.scratch(1);
  reduce_scatter_phase(builder, request, rank, output(fixed(0)));
  return builder.take();
}

Program all_gather(const Request& request, int rank) {
  const int n = request.ranks;
  Builder builder(request, rank, n);
  builder.loop(1).add(copy(output(fixed(rank)), input(fixed(0)), fixed(rank)));
  builder.loop(n - 1)
      .add(send(input(fixed(0)), around(rank + 1, 1, n), fixed(rank)))
      .add(receive(output(around(rank - 1, -1, n)), around(rank - 1, -1, n), around(rank - 1, -1, n)));
  return builder.take();
}

Program all_to_all(const Request& request, int rank) {
  const int n = request.ranks;
  Builder builder(request, rank, n);
  builder.loop(1).add(copy(output(fixed(rank)), input(fixed(rank)), fixed(rank)));
  // A step's parts of uneven counts are counted apart, so they don't wrap around together.
  for (int d = 1; d < n && request.uneven(); ++d) {
    const int next = (rank + d) % n;
    const int previous = (rank + n - d) % n;
    builder.loop(1)
        .add(send(input(fixed(next)), fixed(next), fixed(next)))
        .add(receive(output(fixed(previous)), fixed(previous), fixed(received_part(request, previous))));
  }
  if (request.uneven()) return builder.take();
  builder.loop(n - 1)
      .add(send(input(around(rank + 1, 1, n)), around(rank + 1, 1, n), around(rank + 1, 1, n)))
      .add(receive(output(around(rank - 1, -1, n)), around(rank - 1, -1, n), around(rank - 1, -1, n)));
  return builder.take();
}

constexpr Makers kMakers = {
    .all_reduce = all_reduce, .reduce_scatter = reduce_scatter, .all_gather = all_gather, .all_to_all = all_to_all};

bool supports(const Request& request) {
  return kMakers.covers(request) && !request.ordered;
}

Program program(const Request& request, int rank) {
  return kMakers.make(request, rank);
}

double cost(const Request& request, const Network& network) {
  const double steps = request.ranks - 1;
  const bool whole = request.collective == Collective::all_reduce;
  const double bytes =
      element_bytes(request, whole ? largest_part(request.count, request.ranks) : static_cast<double>(request.count));
  const double exchange = network.alpha_s + bytes * network.beta_s_per_byte;
  const double work = bytes * network.gamma_s_per_byte;
  const bool moves = request.collective == Collective::all_gather || request.collective == Collective::all_to_all;
  if (moves) return steps * exchange + work;
  return steps * (exchange + work) + (whole ? steps * exchange : 0);
}

}  // namespace

const Algorithm kPairwise = {"pairwise", "all_reduce, reduce_scatter, all_gather, all_to_all; any number of ranks",
                             supports, program, cost};

}  // namespace trireme::plan
