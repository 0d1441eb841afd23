// Exchange: every rank posts its contribution in shared memory, and each takes what it
// needs of all posts, in order of rank.
//
// For small calls of ranks on one host. A post is written once however many ranks read it,
// and reading costs no message back, so a call is one hand-over. All ranks that reduce
// reduce the same operands in the same order: also for operations that do not commute.
// Cost for P ranks and S bytes: one latency and (P - 1) S bytes at each reader.
#include <algorithm>

#include "collectives/algorithms/algorithm.h"
#include "collectives/algorithms/builder.h"

namespace trireme::plan {
namespace {

constexpr int kMostRanks = 64;

Program all_reduce(const Request& request, int rank) {
  Builder builder(request, rank, 1);
  builder.loop(1).add(post(input(fixed(0)), fixed(0)));
  builder.round().add(fetch_reduce(output(fixed(0)), posted(fixed(0)), fixed(0)));
  return builder.take();
}

Program reduce(const Request& request, int rank) {
  Builder builder(request, rank, 1);
  builder.loop(1).add(post(input(fixed(0)), fixed(0)));
  if (rank == request.root) builder.round().add(fetch_reduce(output(fixed(0)), posted(fixed(0)), fixed(0)));
  return builder.take();
}

Program reduce_scatter(const Request& request, int rank) {
  Builder builder(request, rank, request.ranks);
  builder.loop(1).add(spanning(request.ranks, post(input(fixed(0)), fixed(0))));
  builder.round().add(fetch_reduce(output(fixed(0)), posted(fixed(rank)), fixed(rank)));
  return builder.take();
}

// What every other rank posted, to its part of the output; this rank's own straight there.
void fetch_parts(Builder& builder, const Request& request, int rank, bool own_part_of_each) {
  const auto chunk = fixed(own_part_of_each ? rank : 0);
  builder.round().add(copy(output(fixed(rank)), input(chunk), fixed(rank)));
  for (int d = 1; d < request.ranks; ++d) {
    const Affine peer = fixed((rank + d) % request.ranks);
    builder.add(fetch(output(peer), posted(chunk), peer, peer));
  }
}

Program gather(const Request& request, int rank) {
  Builder builder(request, rank, request.ranks);
  builder.loop(1).add(post(input(fixed(0)), fixed(rank)));
  if (request.collective == Collective::all_gather || rank == request.root) {
    fetch_parts(builder, request, rank, false);
  }
  return builder.take();
}

Program all_to_all(const Request& request, int rank) {
  Builder builder(request, rank, request.ranks);
  builder.loop(1).add(spanning(request.ranks, post(input(fixed(0)), fixed(0))));
  fetch_parts(builder, request, rank, true);
  return builder.take();
}

// Broadcast: all take the one chunk the root posted; scatter: each its own of them.
Program from_root(const Request& request, int rank) {
  const std::int32_t chunks = request.collective == Collective::scatter ? request.ranks : 1;
  const Affine own = fixed(chunks == 1 ? 0 : rank);
  Builder builder(request, rank, chunks);
  if (rank == request.root) {
    builder.loop(1).add(spanning(chunks, post(input(fixed(0)), fixed(0))));
    builder.round().add(copy(output(fixed(0)), input(own), own));
  } else {
    builder.loop(1).add(post_nothing());
    builder.round().add(fetch(output(fixed(0)), posted(own), fixed(request.root), own));
  }
  return builder.take();
}

Program barrier(const Request& request, int rank) {
  Builder builder(request, rank, 1);
  builder.loop(1).add(fence());
  return builder.take();
}

constexpr Makers kMakers = {.all_reduce = all_reduce,
                            .reduce_scatter = reduce_scatter,
                            .all_gather = gather,
                            .reduce = reduce,
                            .broadcast = from_root,
                            .gather = gather,
                            .scatter = from_root,
                            .all_to_all = all_to_all,
                            .barrier = barrier};

// Elements that a rank posts, at most.
std::int64_t posted_elements(const Request& request) {
  std::int64_t most = 0;
  if (request.collective == Collective::barrier) return 0;
  for (int rank = 0; rank < request.ranks; ++rank) most = std::max(most, input_elements(request, rank));
  return most;
}

bool supports(const Request& request) {
  // The uneven parts of an all_to_all are known to their two ranks only.
  const bool unknown = request.uneven() && request.collective == Collective::all_to_all;
  return request.shared_memory && request.ranks <= kMostRanks && !unknown &&
         posted_elements(request) * request.element_bytes <= kMostPostedBytes;
}

Program program(const Request& request, int rank) {
  return kMakers.make(request, rank);
}

double cost(const Request& request, const Network& network) {
  const double peers = request.ranks - 1;
  const double bytes = element_bytes(request, static_cast<double>(request.count));
  const bool from_one = request.collective == Collective::broadcast || request.collective == Collective::scatter;
  const double work = reduces(request.collective) ? peers * bytes * network.gamma_s_per_byte : 0;
  if (request.collective == Collective::barrier) return network.alpha_s;
  return network.alpha_s + (from_one ? 1 : peers) * bytes * network.beta_s_per_byte + work;
}

}  // namespace

const Algorithm kExchange = {"exchange", "ranks of one host, at most 64, whose inputs have at most 16 KiB", supports,
                             program, cost};

}  // namespace trireme::plan
