// Recursive halving and doubling: partners at halving distances exchange halves of what
// they still hold, then at doubling distances what is finished.
//
// Reduce-scatter: in the step of distance d = P/2, P/4, ..., 1 a rank sends to rank ^ d the
// half that its partner keeps and adds what comes to its own half, so that in the end it
// holds the result of one part. All-gather runs the other way. All-reduce is both; ranks
// beyond the largest power of two Q fold (folding.h). Cost for P = Q ranks and S bytes
// (all-reduce): 2 log2 P messages and 2 S (P - 1) / P bytes: few messages and least bytes.
// Source: Thakur, Rabenseifner, Gropp, "Optimization of collective communication
// operations in MPICH", 2005.
#include <algorithm>
#include <bit>

#include "collectives/algorithms/algorithm.h"
#include "collectives/algorithms/builder.h"
#include "collectives/algorithms/folding.h"

namespace trireme::plan {
namespace {

// Partial results lie where their parts do: in the output, or wide in the scratch.
struct Partials {
  bool in_output;
  Reference at(int chunk) const { return in_output ? output(fixed(chunk)) : scratch(fixed(chunk)); }
};

// The halving steps of core rank `c` of `n`. `from_input` says of a core rank whether what
// it holds at first is its input; `result` is where the last step puts the finished part.
template <typename RankOf, typename FromInput>
void halve(Builder& builder, int c, int n, Partials partials, Reference result, RankOf&& rank_of,
           FromInput&& from_input) {
  int low = 0;  // What is still held: parts low .. low + 2 d.
  for (int d = n / 2; d >= 1; d /= 2) {
    const bool first = d == n / 2;
    const bool upper = (c & d) != 0;
    const int kept = upper ? low + d : low;
    const int given = upper ? low : low + d;
    const auto held = [&](int chunk) { return first && from_input(c) ? input(fixed(chunk)) : partials.at(chunk); };
    const bool element = partials.in_output || (first && from_input(c ^ d));
    const auto join = upper ? receive_before : receive_after;
    const Affine peer = fixed(rank_of(c ^ d));
    builder.loop(1)
        .add(spanning(d, send(held(given), peer, fixed(given))))
        .add(spanning(d, join(d == 1 ? result : partials.at(kept), held(kept), peer, fixed(kept),
                              element ? Wire::element : Wire::accumulator, d == 1)));
    low = kept;
  }
}

// The doubling steps: core rank `c` begins with part c of the output.
template <typename RankOf>
void gather_doubling(Builder& builder, int c, int n, int first_distance, RankOf&& rank_of) {
  for (int d = first_distance; d < n; d *= 2) {
    const int own = c / d * d;
    const int other = (c ^ d) / d * d;
    const Affine peer = fixed(rank_of(c ^ d));
    builder.loop(1)
        .add(spanning(d, send(output(fixed(own)), peer, fixed(own))))
        .add(spanning(d, receive(output(fixed(other)), peer, fixed(other))));
  }
}

Program all_reduce(const Request& request, int rank) {
  const Folding folding(request.ranks);
  const int n = folding.core;
  Builder builder(request, rank, n);
  if (folding.idle(rank)) {
    builder.loop(1).add(spanning(n, send(input(fixed(0)), fixed(rank + 1), fixed(0))));
    builder.loop(1).add(spanning(n, receive(output(fixed(0)), fixed(rank + 1), fixed(0))));
    return builder.take();
  }
  const Partials partials{!request.wide};
  if (request.wide) builder.scratch_as_partition();
  if (folding.folded(rank)) {
    builder.loop(1).add(
        spanning(n, receive_before(partials.at(0), input(fixed(0)), fixed(rank - 1), fixed(0), Wire::element)));
  }
  const int c = folding.core_rank(rank);
  const auto rank_of = [&](int core_rank) { return folding.rank_of(core_rank); };
  halve(builder, c, n, partials, output(fixed(c)), rank_of,
        [&](int core_rank) { return !folding.folded(folding.rank_of(core_rank)); });
  gather_doubling(builder, c, n, 1, rank_of);
  if (folding.folded(rank)) builder.loop(1).add(spanning(n, send(output(fixed(0)), fixed(rank - 1), fixed(0))));
  return builder.take();
}

int same(int rank) {
  return rank;
}

Program reduce_scatter(const Request& request, int rank) {
  Builder builder(request, rank, request.ranks);
  builder.scratch_as_partition();
  halve(builder, rank, request.ranks, {false}, output(fixed(0)), same, [](int) { return true; });
  return builder.take();
}

Program all_gather(const Request& request, int rank) {
  Builder builder(request, rank, request.ranks);
  const Affine peer = fixed(rank ^ 1);
  builder.loop(1)
      .add(send(input(fixed(0)), peer, fixed(rank)))
      .add(receive(output(peer), peer, peer))
      .add(copy(output(fixed(rank)), input(fixed(0)), fixed(rank)));
  gather_doubling(builder, rank, request.ranks, 2, same);
  return builder.take();
}

constexpr Makers kMakers = {.all_reduce = all_reduce, .reduce_scatter = reduce_scatter, .all_gather = all_gather};

bool supports(const Request& request) {
  const bool any = request.collective == Collective::all_reduce;
  return kMakers.covers(request) && !request.ordered &&
         (any || std::has_single_bit(static_cast<unsigned>(request.ranks)));
}

Program program(const Request& request, int rank) {
  return kMakers.make(request, rank);
}

double cost(const Request& request, const Network& network) {
  const Folding folding(request.ranks);
  const int n = folding.core;
  const bool whole = request.collective == Collective::all_reduce;
  const double part = whole ? largest_part(request.count, n) : static_cast<double>(request.count);
  const double element = element_bytes(request, part);
  const double accumulator = accumulator_bytes(request, part);
  double halving = 0;
  double doubling = 0;
  for (int d = 1; d < n; d *= 2) {
    const bool inputs = d == n / 2 && folding.pairs == 0;
    const double bytes = d * (inputs ? element : accumulator);
    halving += network.alpha_s + bytes * (network.beta_s_per_byte + network.gamma_s_per_byte);
    doubling += network.alpha_s + d * element * network.beta_s_per_byte;
  }
  const double fold =
      folding.pairs == 0 ? 0
                         : 2 * network.alpha_s + n * element * (2 * network.beta_s_per_byte + network.gamma_s_per_byte);
  if (request.collective == Collective::reduce_scatter) return halving;
  if (request.collective == Collective::all_reduce) return halving + doubling + fold;
  // The own part is copied while the first exchange goes on.
  const double first = network.alpha_s + element * network.beta_s_per_byte;
  return doubling - first + std::max(first, element * network.gamma_s_per_byte);
}

}  // namespace

const Algorithm kRecursiveHalving = {"recursive_halving",
                                     "all_reduce; reduce_scatter and all_gather of a power of two of ranks", supports,
                                     program, cost};

}  // namespace trireme::plan
