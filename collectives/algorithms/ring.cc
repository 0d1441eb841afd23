// Ring: every rank talks to its two neighbours only.
//
// Reduce-scatter: the partial result of chunk c starts at rank c and travels around the
// ring; each rank on its way adds its own contribution behind what came in, and the
// last one finishes it. All-gather: every finished chunk travels around the ring once.
// All-reduce is both. Cost for P ranks and S bytes (all-reduce): 2 (P - 1) messages of
// S / P bytes, the least traffic possible; latency grows with P.
// Partial results of low-precision types travel as f32 (twice or four times the bytes).
// Source: Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms", 2009.
#include "collectives/algorithms/algorithm.h"
#include "collectives/algorithms/builder.h"

namespace trireme::plan {
namespace {

// Partial results live in two scratch slots (one is sent while the other is filled), or,
// when elements are their own accumulators and the output has room, in the output.
struct Partials {
  bool in_output;
  // Where the partial of `chunk` lies that was computed in a step of parity `step`.
  Reference at(Affine chunk, Affine step) const { return in_output ? output(chunk) : scratch(step); }
};

// Chunk `first` - s is sent in step s, for s = 0 .. n-2; the last one received stays here.
void reduce_scatter_phase(Builder& builder, int rank, int n, int first, Partials partials, bool to_own_output) {
  const Affine next = fixed((rank + 1) % n);
  const Affine previous = fixed((rank + n - 1) % n);
  const auto back = [&](int steps) { return around(first - steps, -1, n); };
  const auto once = [&](int steps) { return fixed(around(first - steps, 0, n).at(0)); };
  const Wire partial = partials.in_output ? Wire::element : Wire::accumulator;
  const auto result = [&](int steps) { return to_own_output ? output(fixed(0)) : output(once(steps)); };

  builder.loop(1).add(send(input(once(0)), next, once(0)));
  if (n == 2) {
    builder.add(receive_before(result(1), input(once(1)), previous, once(1), Wire::element, true));
    return;
  }
  builder.add(receive_before(partials.at(once(1), fixed(0)), input(once(1)), previous, once(1), Wire::element));
  // Steps s = 1 + i for i = 0 .. n-4.
  builder.loop(n - 3)
      .add(send(partials.at(back(1), around(0, 1, 2)), next, back(1)))
      .add(receive_before(partials.at(back(2), around(1, 1, 2)), input(back(2)), previous, back(2), partial));
  builder.loop(1)
      .add(send(partials.at(once(n - 2), fixed((n - 3) % 2)), next, once(n - 2)))
      .add(receive_before(result(n - 1), input(once(n - 1)), previous, once(n - 1), partial, true));
}

Program all_reduce(const Request& request, int rank) {
  const int n = request.ranks;
  Builder builder(request, rank, n);
  if (request.wide) builder.scratch(2);
  reduce_scatter_phase(builder, rank, n, rank, {!request.wide}, false);
  builder.loop(n - 1)
      .add(send(output(around(rank + 1, -1, n)), fixed((rank + 1) % n), around(rank + 1, -1, n)))
      .add(receive(output(around(rank, -1, n)), fixed((rank + n - 1) % n), around(rank, -1, n)));
  return builder.take();
}

Program reduce_scatter(const Request& request, int rank) {
  Builder builder(request, rank, request.ranks);
  builder.scratch(2);
  reduce_scatter_phase(builder, rank, request.ranks, rank - 1, {false}, true);
  return builder.take();
}

Program all_gather(const Request& request, int rank) {
  const int n = request.ranks;
  const Affine next = fixed((rank + 1) % n);
  const Affine previous = fixed((rank + n - 1) % n);
  Builder builder(request, rank, n);
  builder.loop(1)
      .add(send(input(fixed(0)), next, fixed(rank)))
      .add(receive(output(previous), previous, previous))
      .add(copy(output(fixed(rank)), input(fixed(0)), fixed(rank)));
  builder.loop(n - 2)
      .add(send(output(around(rank - 1, -1, n)), next, around(rank - 1, -1, n)))
      .add(receive(output(around(rank - 2, -1, n)), previous, around(rank - 2, -1, n)));
  return builder.take();
}

constexpr Makers kMakers = {.all_reduce = all_reduce, .reduce_scatter = reduce_scatter, .all_gather = all_gather};

bool supports(const Request& request) {
  return kMakers.covers(request) && !request.ordered;
}

Program program(const Request& request, int rank) {
  return kMakers.make(request, rank);
}

double cost(const Request& request, const Network& network) {
  const double steps = request.ranks - 1;
  const bool whole = request.collective == Collective::all_reduce;
  const double part = whole ? largest_part(request.count, request.ranks) : static_cast<double>(request.count);
  const double element = element_bytes(request, part);
  const double accumulator = accumulator_bytes(request, part);
  const double gather = steps * (network.alpha_s + element * network.beta_s_per_byte);
  if (request.collective == Collective::all_gather) return gather;
  const double step = network.alpha_s + accumulator * (network.beta_s_per_byte + network.gamma_s_per_byte);
  const double first = network.alpha_s + element * (network.beta_s_per_byte + network.gamma_s_per_byte);
  return (steps - 1) * step + first + (whole ? gather : 0);
}

}  // namespace

const Algorithm kRing = {"ring", "all_reduce, reduce_scatter, all_gather; any number of ranks", supports, program,
                         cost};

}  // namespace trireme::plan
