// Direct (one-shot): everything at once from its sender to its receiver, then local work.
//
// All-gather: one round in which every rank sends to every other. All-reduce and
// reduce-scatter: one such round that brings all contributions here, then they are
// reduced in order of rank; so this one also serves operations that do not commute.
// Reduce, gather: all send to the root; broadcast, scatter: the root sends to all.
// All-to-all: every part straight to its rank, of even or uneven parts. Cost for P ranks
// and S bytes: one message latency and (P - 1) S bytes (all-reduce), so it suits the
// smallest sizes, and what cannot be had for less. Accumulators stay local.
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

Program all_to_all(const Request& request, int rank) {
  const int n = request.ranks;
  Builder builder(request, rank, n);
  builder.loop(1);
  for (int d = 1; d < n; ++d) {
    const Affine peer = fixed((rank + d) % n);
    builder.add(send(input(peer), peer, peer));
  }
  builder.add(copy(output(fixed(rank)), input(fixed(rank)), fixed(rank)));
  for (int d = 1; d < n; ++d) {
    const int peer = (rank + n - d) % n;
    builder.add(receive(output(fixed(peer)), fixed(peer), fixed(received_part(request, peer))));
  }
  return builder.take();
}

// The root's part of a rooted collective, for every other rank in order from the root.
template <typename Add>
void for_others(const Request& request, Add&& add) {
  for (int d = 1; d < request.ranks; ++d) add((request.root + d) % request.ranks);
}

Program reduce_to_root(const Request& request, int rank) {
  const int n = request.ranks;
  Builder builder(request, rank, 1);
  if (rank != request.root) {
    builder.loop(1).add(send(input(fixed(0)), fixed(request.root), fixed(0)));
    return builder.take();
  }
  builder.scratch(n);
  builder.loop(1).add(copy(scratch(fixed(rank)), input(fixed(0)), fixed(0)));
  for_others(request, [&](int peer) { builder.add(receive(scratch(fixed(peer)), fixed(peer), fixed(0))); });
  reduce_slots(builder, n, fixed(0));
  return builder.take();
}

Program gather(const Request& request, int rank) {
  Builder builder(request, rank, request.ranks);
  builder.loop(1);
  if (rank != request.root) {
    builder.add(send(input(fixed(0)), fixed(request.root), fixed(rank)));
    return builder.take();
  }
  builder.add(copy(output(fixed(rank)), input(fixed(0)), fixed(rank)));
  for_others(request, [&](int peer) { builder.add(receive(output(fixed(peer)), fixed(peer), fixed(peer))); });
  return builder.take();
}

// Broadcast sends the one chunk to all, scatter each its own.
Program from_root(const Request& request, int rank) {
  const bool own_part = request.collective == Collective::scatter;
  const auto part = [&](int peer) { return fixed(own_part ? peer : 0); };
  Builder builder(request, rank, own_part ? request.ranks : 1);
  builder.loop(1);
  if (rank != request.root) {
    builder.add(receive(output(fixed(0)), fixed(request.root), part(rank)));
    return builder.take();
  }
  for_others(request, [&](int peer) { builder.add(send(input(part(peer)), fixed(peer), part(peer))); });
  builder.add(copy(output(fixed(0)), input(part(rank)), part(rank)));
  return builder.take();
}

constexpr Makers kMakers = {.all_reduce = all_reduce,
                            .reduce_scatter = reduce_scatter,
                            .all_gather = all_gather,
                            .reduce = reduce_to_root,
                            .broadcast = from_root,
                            .gather = gather,
                            .scatter = from_root,
                            .all_to_all = all_to_all};

// Any number of ranks where nothing else can do it.
bool supports(const Request& request) {
  const bool only_one = request.ordered || request.uneven() || request.collective == Collective::gather ||
                        request.collective == Collective::scatter || request.collective == Collective::all_to_all;
  return kMakers.covers(request) && (only_one || request.ranks <= kMostRanks);
}

Program program(const Request& request, int rank) {
  return kMakers.make(request, rank);
}

// One rank sends or receives at most P - 1 messages; a receiver takes those of different
// senders at once, a sender sends one after the other.
double cost(const Request& request, const Network& network) {
  const double peers = request.ranks - 1;
  const double bytes = element_bytes(request, static_cast<double>(request.count));
  const bool to_root = request.collective == Collective::reduce || request.collective == Collective::gather;
  const double exchange = (to_root ? 1 : peers) * bytes * network.beta_s_per_byte + network.alpha_s;
  const double work = reduces(request.collective) ? peers * bytes * network.gamma_s_per_byte : 0;
  return std::max(exchange, bytes * network.gamma_s_per_byte) + work;
}

}  // namespace

const Algorithm kDirect = {"direct", "all but barrier; reductions and broadcast at most 64 ranks", supports, program,
                           cost};

}  // namespace trireme::plan
