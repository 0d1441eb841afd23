// Direct (one-shot): every rank sends to every other rank at once, then works locally.
//
// All-gather: one round. All-reduce and reduce-scatter: one round that brings all
// contributions here, then they are reduced in order of rank. Cost for P ranks and S
// bytes: one message latency and (P - 1) S bytes (all-reduce), so it suits the smallest
// sizes. Inputs travel as they are; f32 accumulators stay local.
#include <algorithm>

#include "collectives/algorithms/algorithm.h"
#include "collectives/algorithms/builder.h"

namespace trireme::plan {
namespace {

constexpr int kMostRanks = 64;  // A round holds 2 (P - 1) operations.

// Slots 0 .. n-1 hold the contributions in order of rank; `length` is their size.
void reduce_slots(Builder& builder, int n, Affine length) {
  builder.loop(n - 2).add(reduce(scratch(fixed(0)), scratch(fixed(0)), scratch({1, 1, 0}), length));
  builder.loop(1).add(reduce(output(fixed(0)), scratch(fixed(0)), scratch(fixed(n - 1)), length, true));
}

Program all_reduce(const Request& request, int rank) {
  const int n = request.ranks;
  Builder builder(request, rank, 1);
  builder.scratch(n);
  builder.loop(1);
  for (int d = 1; d < n; ++d) builder.add(send(input(fixed(0)), fixed((rank + d) % n), fixed(0)));
  builder.add(copy(scratch(fixed(rank)), input(fixed(0)), fixed(0)));
  for (int d = 1; d < n; ++d) {
    const int peer = (rank + n - d) % n;
    builder.add(receive(scratch(fixed(peer)), fixed(peer), fixed(0)));
  }
  reduce_slots(builder, n, fixed(0));
  return builder.take();
}

Program reduce_scatter(const Request& request, int rank) {
  const int n = request.ranks;
  Builder builder(request, rank, n);
  builder.scratch(n);
  builder.loop(1);
  for (int d = 1; d < n; ++d) {
    const Affine peer = fixed((rank + d) % n);
    builder.add(send(input(peer), peer, peer));
  }
  builder.add(copy(scratch(fixed(rank)), input(fixed(rank)), fixed(rank)));
  for (int d = 1; d < n; ++d) {
    const int peer = (rank + n - d) % n;
    builder.add(receive(scratch(fixed(peer)), fixed(peer), fixed(rank)));
  }
  reduce_slots(builder, n, fixed(rank));
  return builder.take();
}

Program all_gather(const Request& request, int rank) {
  const int n = request.ranks;
  Builder builder(request, rank, n);
  builder.loop(1);
  for (int d = 1; d < n; ++d) builder.add(send(input(fixed(0)), fixed((rank + d) % n), fixed(rank)));
  builder.add(copy(output(fixed(rank)), input(fixed(0)), fixed(rank)));
  for (int d = 1; d < n; ++d) {
    const Affine peer = fixed((rank + n - d) % n);
    builder.add(receive(output(peer), peer, peer));
  }
  return builder.take();
}

constexpr Makers kMakers = {all_reduce, reduce_scatter, all_gather};

bool supports(const Request& request) {
  return request.ranks <= kMostRanks && kMakers.covers(request);
}

Program program(const Request& request, int rank) {
  return kMakers.make(request, rank);
}

double cost(const Request& request, const Network& network) {
  const double peers = request.ranks - 1;
  const double bytes = element_bytes(request, static_cast<double>(request.count));
  const double exchange = peers * bytes * network.beta_s_per_byte + network.alpha_s;
  if (request.collective == Collective::all_gather) return std::max(exchange, bytes * network.gamma_s_per_byte);
  return std::max(exchange, bytes * network.gamma_s_per_byte) + peers * bytes * network.gamma_s_per_byte;
}

}  // namespace

const Algorithm kDirect = {"direct", "all_reduce, reduce_scatter, all_gather; at most 64 ranks", supports, program,
                           cost};

}  // namespace trireme::plan
