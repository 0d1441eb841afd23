// Hierarchical: inside the hosts first, then across them, then inside again.
//
// With G ranks on each of M hosts: the ranks of a host reduce-scatter among themselves, so
// that each holds one G-th of the host's sum; ranks of equal place on all hosts all-reduce
// their G-th; the ranks of a host gather. Every step is pairwise, and every path between
// hosts carries only its own G-th of the buffer. Cost for S bytes: 2 S (G - 1) / G inside
// and 2 (S / G) (M - 1) / M across, in 2 (G - 1) + 2 (M - 1) messages.
// Needs hosts of equally many consecutive ranks.
#include <cstdint>

#include "collectives/algorithms/algorithm.h"
#include "collectives/algorithms/builder.h"

namespace trireme::plan {
namespace {

// Chunk l * M + k is what the rank of place l on host k finishes.
struct Place {
  int per_host;
  int hosts;
  int local;
  int host;
  Place(const Request& request, int rank)
      : per_host(request.ranks_per_host),
        hosts(request.ranks / request.ranks_per_host),
        local(rank % request.ranks_per_host),
        host(rank / request.ranks_per_host) {}
  int chunks() const { return per_host * hosts; }
  int group(int of_local) const { return of_local * hosts; }  // The first of its chunks.
  Affine inside(int other_local) const { return fixed(host * per_host + other_local); }
  Affine across(int other_host) const { return fixed(other_host * per_host + local); }
};

struct Partials {
  bool wide;
  Reference at(int chunk) const { return wide ? scratch(fixed(chunk)) : output(fixed(chunk)); }
};

void reduce_inside(Builder& builder, const Place& p, Partials partials) {
  const int own = p.group(p.local);
  for (int d = 1; d < p.per_host; ++d) {
    const int to = (p.local + d) % p.per_host;
    const int from = (p.local + p.per_host - d) % p.per_host;
    builder.loop(1)
        .add(spanning(p.hosts, send(input(fixed(p.group(to))), p.inside(to), fixed(p.group(to)))))
        .add(spanning(p.hosts, receive_after(partials.at(own), d == 1 ? input(fixed(own)) : partials.at(own),
                                             p.inside(from), fixed(own), Wire::element)));
  }
}

void reduce_across(Builder& builder, const Place& p, Partials partials) {
  const int own = p.group(p.local) + p.host;
  for (int d = 1; d < p.hosts; ++d) {
    const int to = (p.host + d) % p.hosts;
    const int from = (p.host + p.hosts - d) % p.hosts;
    const int sent = p.group(p.local) + to;
    const bool last = d + 1 == p.hosts;
    builder.loop(1)
        .add(send(partials.at(sent), p.across(to), fixed(sent)))
        .add(receive_after(last ? output(fixed(own)) : partials.at(own), partials.at(own), p.across(from), fixed(own),
                           partials.wide ? Wire::accumulator : Wire::element, last));
  }
}

void gather_across(Builder& builder, const Place& p) {
  const int own = p.group(p.local) + p.host;
  for (int d = 1; d < p.hosts; ++d) {
    const int to = (p.host + d) % p.hosts;
    const int from = (p.host + p.hosts - d) % p.hosts;
    const int received = p.group(p.local) + from;
    builder.loop(1)
        .add(send(output(fixed(own)), p.across(to), fixed(own)))
        .add(receive(output(fixed(received)), p.across(from), fixed(received)));
  }
}

void gather_inside(Builder& builder, const Place& p) {
  const int own = p.group(p.local);
  for (int d = 1; d < p.per_host; ++d) {
    const int to = (p.local + d) % p.per_host;
    const int from = (p.local + p.per_host - d) % p.per_host;
    builder.loop(1)
        .add(spanning(p.hosts, send(output(fixed(own)), p.inside(to), fixed(own))))
        .add(spanning(p.hosts, receive(output(fixed(p.group(from))), p.inside(from), fixed(p.group(from)))));
  }
}

Program program(const Request& request, int rank) {
  const Place place(request, rank);
  const Partials partials{request.wide};
  Builder builder(request, rank, place.chunks());
  if (request.wide) builder.scratch_as_partition();
  reduce_inside(builder, place, partials);
  reduce_across(builder, place, partials);
  gather_across(builder, place);
  gather_inside(builder, place);
  return builder.take();
}

bool supports(const Request& request) {
  const int per_host = request.ranks_per_host;
  return request.collective == Collective::all_reduce && !request.ordered && per_host > 1 && per_host < request.ranks &&
         request.ranks % per_host == 0;
}

// On a network where all paths are alike.
double cost(const Request& request, const Network& network) {
  const Place place(request, 0);
  const double chunk = largest_part(request.count, place.chunks());
  const double element = element_bytes(request, chunk);
  const double accumulator = accumulator_bytes(request, chunk);
  const double alpha = network.alpha_s;
  const double beta = network.beta_s_per_byte;
  const double gamma = network.gamma_s_per_byte;
  const double group = place.hosts * element;
  return (place.per_host - 1) * (2 * alpha + group * (2 * beta + gamma)) +
         (place.hosts - 1) * (2 * alpha + accumulator * (beta + gamma) + element * beta);
}

}  // namespace

const Algorithm kHierarchical = {"hierarchical", "all_reduce over several hosts of equally many consecutive ranks",
                                 supports, program, cost};

}  // namespace trireme::plan
