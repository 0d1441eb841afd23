// Hierarchical: inside the hosts first, then across them, then inside again.
//
// With G ranks on each of M hosts: the ranks of a host reduce-scatter among themselves, so
// that each holds one G-th of the host's sum; ranks of equal place on all hosts all-reduce
// their G-th; the ranks of a host gather. Every step is pairwise, and every path between
// hosts carries only its own G-th of the buffer. Cost for S bytes: 2 S (G - 1) / G inside
// and 2 (S / G) (M - 1) / M across, in 2 (G - 1) + 2 (M - 1) messages.
// Reduce-scatter and all-gather go the same ways with single parts, B bytes each: M (G - 1)
// messages inside and M - 1 across. Broadcast and reduce go along a tree of hosts, whose
// ranks of the root's place are the inner nodes, and a tree inside each host.
// Needs hosts of equally many consecutive ranks.
#include <bit>
#include <cstdint>

#include "collectives/algorithms/algorithm.h"
#include "collectives/algorithms/builder.h"
#include "collectives/algorithms/trees.h"

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

Program all_reduce(const Request& request, int rank) {
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

// The parts of one place are G apart: parts place, place + G, ... of hosts 0, 1, ...
Affine parts_of(const Place& p, int local) {
  return {local, p.per_host, 0};
}

Program all_gather(const Request& request, int rank) {
  const Place p(request, rank);
  Builder builder(request, rank, request.ranks);
  builder.loop(1).add(copy(output(fixed(rank)), input(fixed(0)), fixed(rank)));
  for (int d = 1; d < p.hosts; ++d) {
    const Affine to = p.across((p.host + d) % p.hosts);
    const Affine from = p.across((p.host + p.hosts - d) % p.hosts);
    builder.loop(1).add(send(input(fixed(0)), to, fixed(rank))).add(receive(output(from), from, from));
  }
  for (int d = 1; d < p.per_host; ++d) {
    const int to = (p.local + d) % p.per_host;
    const int from = (p.local + p.per_host - d) % p.per_host;
    builder.loop(p.hosts)
        .add(send(output(parts_of(p, p.local)), p.inside(to), parts_of(p, p.local)))
        .add(receive(output(parts_of(p, from)), p.inside(from), parts_of(p, from)));
  }
  return builder.take();
}

// Slot k holds the host's sum of the part of this place on host k.
Program reduce_scatter(const Request& request, int rank) {
  const Place p(request, rank);
  const Affine slots{0, 1, 0};
  const Affine own = parts_of(p, p.local);
  Builder builder(request, rank, request.ranks);
  builder.scratch(p.hosts);
  for (int d = 1; d < p.per_host; ++d) {
    const int to = (p.local + d) % p.per_host;
    const int from = (p.local + p.per_host - d) % p.per_host;
    builder.loop(p.hosts)
        .add(send(input(parts_of(p, to)), p.inside(to), parts_of(p, to)))
        .add(receive_after(scratch(slots), d == 1 ? input(own) : scratch(slots), p.inside(from), own, Wire::element));
  }
  for (int d = 1; d < p.hosts; ++d) {
    const int to = (p.host + d) % p.hosts;
    const int from = (p.host + p.hosts - d) % p.hosts;
    const bool last = d + 1 == p.hosts;
    const Reference sum = scratch(fixed(p.host));
    builder.loop(1)
        .add(send(scratch(fixed(to)), p.across(to), p.across(to)))
        .add(receive_after(last ? output(fixed(0)) : sum, sum, p.across(from), fixed(rank), Wire::accumulator, last));
  }
  return builder.take();
}

// Node `v` of the binomial tree of 0 .. n-1: calls `child(number)`, nearest first, and
// returns the parent's number, -1 of 0.
template <typename Child>
int binomial_node(int v, int n, Child&& child) {
  const int low = v == 0 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(n))) : v & -v;
  for (int bit = 1; bit < low && v + bit < n; bit *= 2) child(v + bit);
  return v == 0 ? -1 : v - low;
}

// Inside a host from the rank of the root's place; those ranks form the tree across.
Tree tree_of(const Request& request, int rank) {
  const Place p(request, rank);
  const Place root(request, request.root);
  Tree tree;
  const int local = (p.local - root.local + p.per_host) % p.per_host;
  const int inside = binomial_node(
      local, p.per_host, [&](int child) { tree.children.push_back(p.inside((child + root.local) % p.per_host).base); });
  if (local != 0) {
    tree.parent = p.inside((inside + root.local) % p.per_host).base;
    return tree;
  }
  const int host = (p.host - root.host + p.hosts) % p.hosts;
  const int across = binomial_node(
      host, p.hosts, [&](int child) { tree.children.push_back(p.across((child + root.host) % p.hosts).base); });
  if (host != 0) tree.parent = p.across((across + root.host) % p.hosts).base;
  return tree;
}

Program broadcast(const Request& request, int rank) {
  return tree_broadcast(request, rank, tree_of);
}

Program reduce_to_root(const Request& request, int rank) {
  return tree_reduce(request, rank, tree_of);
}

constexpr Makers kMakers = {.all_reduce = all_reduce,
                            .reduce_scatter = reduce_scatter,
                            .all_gather = all_gather,
                            .reduce = reduce_to_root,
                            .broadcast = broadcast};

bool supports(const Request& request) {
  const int per_host = request.ranks_per_host;
  return kMakers.covers(request) && !request.ordered && per_host > 1 && per_host < request.ranks &&
         request.ranks % per_host == 0;
}

Program program(const Request& request, int rank) {
  return kMakers.make(request, rank);
}

// A bound: every rank of the longest path handles its children's messages for each chunk.
double tree_cost(const Request& request, const Network& network) {
  const Place place(request, 0);
  const double levels = std::bit_width(static_cast<unsigned>(place.per_host - 1)) +
                        std::bit_width(static_cast<unsigned>(place.hosts - 1));
  const double chunks = tree_chunks(request);
  const double elements = largest_part(request.count, static_cast<std::int32_t>(chunks));
  const bool combines = request.collective == Collective::reduce;
  const double bytes = combines ? accumulator_bytes(request, elements) : element_bytes(request, elements);
  const double message = bytes * (network.beta_s_per_byte + (combines ? network.gamma_s_per_byte : 0));
  return levels * (network.alpha_s + message) + (chunks - 1) * (network.alpha_s + levels * message);
}

// On a network where all paths are alike.
double cost(const Request& request, const Network& network) {
  if (plan::is_rooted(request.collective)) return tree_cost(request, network);
  const Place place(request, 0);
  const double inside = place.per_host - 1;
  const double across = place.hosts - 1;
  const bool whole = request.collective == Collective::all_reduce;
  const double part = whole ? largest_part(request.count, place.chunks()) : static_cast<double>(request.count);
  const double element = element_bytes(request, part);
  const double accumulator = accumulator_bytes(request, part);
  const double alpha = network.alpha_s;
  const double beta = network.beta_s_per_byte;
  const double gamma = network.gamma_s_per_byte;
  const double group = place.hosts * element;
  if (whole) {
    return inside * (2 * alpha + group * (2 * beta + gamma)) +
           across * (2 * alpha + accumulator * (beta + gamma) + element * beta);
  }
  const double messages = across + place.hosts * inside;
  if (request.collective == Collective::all_gather) return element * gamma + messages * (alpha + element * beta);
  return place.hosts * inside * (alpha + element * (beta + gamma)) + across * (alpha + accumulator * (beta + gamma));
}

}  // namespace

const Algorithm kHierarchical = {
    "hierarchical", "all but barrier, gather, scatter and all_to_all; hosts of equally many consecutive ranks",
    supports, program, cost};

}  // namespace trireme::plan
