// Recursive doubling: in step k every rank exchanges its whole partial result with the
// rank whose number differs in bit k.
//
// Ranks beyond the largest power of two Q fold (folding.h). Both
// partners of a step put the operand of the lower ranks first, so all ranks evaluate
// the same tree and get the same bits.
// Cost for P ranks and S bytes: log2 Q messages of S bytes (two more when P is no power
// of two). Source: Thakur, Rabenseifner, Gropp, "Optimization of collective
// communication operations in MPICH", 2005.
#include <bit>

#include "collectives/algorithms/algorithm.h"
#include "collectives/algorithms/builder.h"
#include "collectives/algorithms/folding.h"

namespace trireme::plan {
namespace {

// A rank that hands its input to `rank` + 1 and waits for the result.
Program idle_rank(const Request& request, int rank) {
  const Affine zero = fixed(0);
  Builder builder(request, rank, 1);
  builder.loop(1).add(send(input(zero), fixed(rank + 1), zero));
  builder.loop(1).add(receive(output(zero), fixed(rank + 1), zero));
  return builder.take();
}

// The exchanges of a core rank. `value` is where its partial result lies.
void exchange(Builder& builder, const Folding& folding, int rank, Reference value) {
  const Affine zero = fixed(0);
  const int core_rank = folding.core_rank(rank);
  for (int distance = 1; distance < folding.core; distance *= 2) {
    const int peer = folding.rank_of(core_rank ^ distance);
    const bool last = distance * 2 == folding.core;
    const bool from_input = value.buffer == Buffer::input;
    // While the input is being sent the output may not change: it can be the same memory.
    const bool finish_here = last && !from_input;
    const bool peer_from_input = distance == 1 && !folding.folded(peer);
    const Reference next = finish_here  ? output(zero)
                           : from_input ? scratch(fixed(0))
                                        : scratch(fixed(1 - value.chunk.base));
    const auto join = (core_rank & distance) != 0 ? receive_before : receive_after;
    builder.loop(1)
        .add(send(value, fixed(peer), zero))
        .add(join(next, value, fixed(peer), zero, peer_from_input ? Wire::element : Wire::accumulator, finish_here));
    value = next;
  }
  if (value.buffer != Buffer::output) builder.loop(1).add(copy(output(zero), value, zero, true));
}

Program program(const Request& request, int rank) {
  const Affine zero = fixed(0);
  const Folding folding(request.ranks);
  if (folding.idle(rank)) return idle_rank(request, rank);
  Builder builder(request, rank, 1);
  builder.scratch(2);
  Reference value = input(zero);
  if (folding.folded(rank)) {
    value = scratch(zero);
    builder.loop(1).add(receive_before(value, input(zero), fixed(rank - 1), zero, Wire::element));
  }
  exchange(builder, folding, rank, value);
  if (folding.folded(rank)) builder.loop(1).add(send(output(zero), fixed(rank - 1), zero));
  return builder.take();
}

bool supports(const Request& request) {
  return request.collective == Collective::all_reduce;
}

double cost(const Request& request, const Network& network) {
  const Folding folding(request.ranks);
  const double steps = std::bit_width(static_cast<unsigned>(folding.core)) - 1;
  const double element = element_bytes(request, static_cast<double>(request.count));
  const double accumulator = accumulator_bytes(request, static_cast<double>(request.count));
  const auto step = [&](double bytes, double worked) {
    return network.alpha_s + bytes * network.beta_s_per_byte + worked * network.gamma_s_per_byte;
  };
  double seconds = (steps - 1) * step(accumulator, accumulator) +
                   (folding.pairs > 0 ? step(accumulator, accumulator) : step(element, element));
  if (folding.core == 2 && folding.pairs == 0) seconds += element * network.gamma_s_per_byte;
  if (folding.pairs > 0) seconds += step(element, element) + step(element, 0);
  return seconds;
}

}  // namespace

const Algorithm kRecursiveDoubling = {"recursive_doubling", "all_reduce; any number of ranks", supports, program, cost};

}  // namespace trireme::plan
