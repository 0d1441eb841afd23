// Slices: every rank works on its slice of all buffers, where they lie, and stores the
// result wherever it belongs.
//
// For ranks of one host whose buffers lie in windows, memory that all of them map. Each
// byte is read once and written once to each place that needs it, with one fence before and
// one after. Reductions take operands in order of rank. Cost for P ranks and S bytes: two
// latencies, and 2 (P - 1) / P S bytes between ranks (all-reduce).
#include <algorithm>

#include "collectives/algorithms/algorithm.h"
#include "collectives/algorithms/builder.h"

namespace trireme::plan {
namespace {

constexpr int kMostRanks = 64;

// One round of work between the fences.
template <typename Work>
Program between_fences(const Request& request, int rank, std::int32_t chunks, Work&& work) {
  Builder builder(request, rank, chunks);
  builder.loop(1).add(expose());
  builder.round();
  work(builder);
  builder.round().add(fence());
  return builder.take();
}

Program all_reduce(const Request& request, int rank) {
  const Affine own = fixed(rank);
  return between_fences(request, rank, request.ranks, [&](Builder& builder) {
    builder.add(placed_everywhere(fetch_reduce(output(own), input(own), own)));
  });
}

Program reduce(const Request& request, int rank) {
  const Affine own = fixed(rank);
  return between_fences(request, rank, request.ranks, [&](Builder& builder) {
    builder.add(placed_at(request.root, fetch_reduce(output(own), input(own), own)));
  });
}

Program reduce_scatter(const Request& request, int rank) {
  return between_fences(request, rank, request.ranks, [&](Builder& builder) {
    builder.add(fetch_reduce(output(fixed(0)), input(fixed(rank)), fixed(rank)));
  });
}

// Each rank takes its slice of the root's buffer to all.
Program broadcast(const Request& request, int rank) {
  const Affine own = fixed(rank);
  return between_fences(request, rank, request.ranks, [&](Builder& builder) {
    const Op op = rank == request.root ? copy(output(own), input(own), own)
                                       : fetch(output(own), input(own), fixed(request.root), own);
    builder.add(placed_everywhere(op));
  });
}

Program all_gather(const Request& request, int rank) {
  const Affine own = fixed(rank);
  return between_fences(request, rank, request.ranks, [&](Builder& builder) {
    builder.add(placed_everywhere(copy(output(own), input(fixed(0)), own)));
  });
}

Program gather(const Request& request, int rank) {
  const Affine own = fixed(rank);
  return between_fences(request, rank, request.ranks, [&](Builder& builder) {
    builder.add(placed_at(request.root, copy(output(own), input(fixed(0)), own)));
  });
}

Program scatter(const Request& request, int rank) {
  const Affine own = fixed(rank);
  return between_fences(request, rank, request.ranks, [&](Builder& builder) {
    builder.add(rank == request.root ? copy(output(fixed(0)), input(own), own)
                                     : fetch(output(fixed(0)), input(own), fixed(request.root), own));
  });
}

Program all_to_all(const Request& request, int rank) {
  const int n = request.ranks;
  return between_fences(request, rank, n, [&](Builder& builder) {
    builder.add(copy(output(fixed(rank)), input(fixed(rank)), fixed(rank)));
    for (int d = 1; d < n; ++d) {
      const Affine peer = fixed((rank + d) % n);
      builder.add(fetch(output(peer), input(fixed(rank)), peer, peer));
    }
  });
}

constexpr Makers kMakers = {.all_reduce = all_reduce,
                            .reduce_scatter = reduce_scatter,
                            .all_gather = all_gather,
                            .reduce = reduce,
                            .broadcast = broadcast,
                            .gather = gather,
                            .scatter = scatter,
                            .all_to_all = all_to_all};

bool supports(const Request& request) {
  const bool unknown = request.uneven() && request.collective == Collective::all_to_all;
  return request.windows && request.shared_memory && kMakers.covers(request) && !unknown && request.ranks <= kMostRanks;
}

Program program(const Request& request, int rank) {
  return kMakers.make(request, rank);
}

// What the busiest rank moves between its memory and others', besides two latencies.
double cost(const Request& request, const Network& network) {
  const double peers = request.ranks - 1;
  const double whole = element_bytes(request, static_cast<double>(request.count));
  const double slice = element_bytes(request, largest_part(request.count, request.ranks));
  const double work = network.gamma_s_per_byte;
  const double path = network.beta_s_per_byte;
  const double fences = 2 * network.alpha_s;
  switch (request.collective) {
    case Collective::all_reduce:
      return fences + slice * peers * (2 * path + work);
    case Collective::reduce:
      return fences + slice * peers * (path + work) + slice * path;
    case Collective::reduce_scatter:
      return fences + whole * peers * (path + work);
    case Collective::broadcast:
      return fences + slice * (peers + 1) * path;
    case Collective::scatter:
    case Collective::gather:
      return fences + whole * std::max(path, work);
    default:
      return fences + std::max(whole * peers * path, whole * work);
  }
}

}  // namespace

const Algorithm kSlices = {"slices", "all but barrier; ranks of one host, at most 64, with all buffers in windows",
                           supports, program, cost};

}  // namespace trireme::plan
