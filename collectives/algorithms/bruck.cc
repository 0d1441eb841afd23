// Bruck: in step k a rank exchanges with those 2^k away all it can in one message.
//
// All-gather: a rank keeps the parts of itself and the ranks after it in that order; in
// step k it sends its first 2^k parts to the rank 2^k before it and so doubles what it
// has. All-to-all: parts are numbered by how far they must go; in step k all whose number
// has bit k travel 2^k further, packed into one message. A last copy puts parts in order.
// Cost for P ranks and parts of B bytes: ceil(log2 P) messages; all-gather sends
// (P - 1) B bytes, all-to-all about P/2 B in every step: for the smallest parts only.
// Even parts only: spans of unequal parts do not fit one another.
// Source: Bruck et al., "Efficient algorithms for all-to-all communications in multiport
// message-passing systems", 1997.
#include <algorithm>
#include <vector>

#include "collectives/algorithms/algorithm.h"
#include "collectives/algorithms/builder.h"

namespace trireme::plan {
namespace {

const Affine kPart = fixed(0);  // All parts are as long as the first.

// slots first .. first + n - 1 = the parts of `source`, beginning with part `start`.
template <typename To, typename From>
void add_rotated(Builder& builder, int n, int start, To&& to, From&& from) {
  builder.loop(1).add(spanning(n - start, copy(to(0), from(start), kPart)));
  if (start > 0) builder.add(spanning(start, copy(to(n - start), from(0), kPart)));
}

Program all_gather(const Request& request, int rank) {
  const int n = request.ranks;
  Builder builder(request, rank, n);
  builder.scratch(n);
  builder.loop(1).add(copy(scratch(fixed(0)), input(fixed(0)), kPart));
  for (int d = 1; d < n; d *= 2) {
    const int parts = std::min(d, n - d);
    builder.loop(1)
        .add(spanning(parts, send(scratch(fixed(0)), fixed((rank + n - d) % n), kPart)))
        .add(spanning(parts, receive(scratch(fixed(d)), fixed((rank + d) % n), kPart, Wire::accumulator)));
  }
  // Slot i holds part rank + i.
  builder.loop(1).add(spanning(n - rank, copy(output(fixed(rank)), scratch(fixed(0)), kPart)));
  if (rank > 0) builder.add(spanning(rank, copy(output(fixed(0)), scratch(fixed(n - rank)), kPart)));
  return builder.take();
}

// The runs of numbers below n with the bit of `distance` set.
struct Run {
  int first;
  int length;
};
std::vector<Run> runs_of(int distance, int n) {
  std::vector<Run> runs;
  for (int first = distance; first < n; first += 2 * distance) {
    runs.push_back({first, std::min(distance, n - first)});
  }
  return runs;
}

// Slots 0 .. n-1 hold the parts by distance; those after them what is sent and received.
Program all_to_all(const Request& request, int rank) {
  const int n = request.ranks;
  const int half = n / 2;
  const int outgoing = n;
  const int incoming = n + half;
  Builder builder(request, rank, n);
  builder.scratch(n + 2 * half);
  add_rotated(
      builder, n, rank, [](int i) { return scratch(fixed(i)); }, [](int i) { return input(fixed(i)); });
  for (int d = 1; d < n; d *= 2) {
    builder.loop(1);
    int packed = 0;
    for (const Run& run : runs_of(d, n)) {
      builder.add(spanning(run.length, copy(scratch(fixed(outgoing + packed)), scratch(fixed(run.first)), kPart)));
      packed += run.length;
    }
    builder.loop(1)
        .add(spanning(packed, send(scratch(fixed(outgoing)), fixed((rank + d) % n), kPart)))
        .add(spanning(packed, receive(scratch(fixed(incoming)), fixed((rank + n - d) % n), kPart, Wire::accumulator)));
    builder.loop(1);
    packed = 0;
    for (const Run& run : runs_of(d, n)) {
      builder.add(spanning(run.length, copy(scratch(fixed(run.first)), scratch(fixed(incoming + packed)), kPart)));
      packed += run.length;
    }
  }
  // What has travelled i came from the rank i before.
  builder.loop(1);
  for (int i = 0; i < n; ++i) builder.add(copy(output(fixed((rank + n - i) % n)), scratch(fixed(i)), kPart));
  return builder.take();
}

constexpr Makers kMakers = {.all_gather = all_gather, .all_to_all = all_to_all};

bool supports(const Request& request) {
  return kMakers.covers(request) && !request.uneven();
}

Program program(const Request& request, int rank) {
  return kMakers.make(request, rank);
}

double cost(const Request& request, const Network& network) {
  const int n = request.ranks;
  const double part = element_bytes(request, static_cast<double>(request.count));
  const bool exchanges = request.collective == Collective::all_to_all;
  double seconds = (exchanges ? 2 * n : n + 1) * part * network.gamma_s_per_byte;  // The copies first and last.
  for (int d = 1; d < n; d *= 2) {
    double parts = std::min(d, n - d);
    if (exchanges) {
      parts = 0;
      for (const Run& run : runs_of(d, n)) parts += run.length;
      seconds += 2 * parts * part * network.gamma_s_per_byte;
    }
    seconds += network.alpha_s + parts * part * network.beta_s_per_byte;
  }
  return seconds;
}

}  // namespace

const Algorithm kBruck = {"bruck", "all_gather, all_to_all of even parts; any number of ranks", supports, program,
                          cost};

}  // namespace trireme::plan
