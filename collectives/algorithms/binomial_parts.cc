// Binomial tree of parts: gather and scatter in log2 P steps.
//
// Ranks are numbered from the root (v = rank - root modulo P), the tree is that of
// binomial_tree.cc. The subtree of v holds the consecutive parts v .. v + size - 1, so one
// message carries a whole subtree: towards the root in a gather, away from it in a
// scatter. Cost for P ranks and parts of B bytes: ceil(log2 P) messages and (P - 1) B
// bytes at the root, as direct, but inner ranks pass parts on: for small parts.
// Even parts only.
#include <algorithm>
#include <bit>
#include <vector>

#include "collectives/algorithms/algorithm.h"
#include "collectives/algorithms/builder.h"

namespace trireme::plan {
namespace {

const Affine kPart = fixed(0);  // All parts are as long as the first.

struct Node {
  int n;
  int root;
  int v;
  int low;  // The lowest set bit of v; of the root the power of two that covers all.
  Node(const Request& request, int rank)
      : n(request.ranks),
        root(request.root),
        v((rank - request.root + n) % n),
        low(v == 0 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(n))) : v & -v) {}
  int size() const { return std::min(low, n - v); }
  Affine rank_of(int number) const { return fixed((number + root) % n); }
  Affine parent() const { return rank_of(v - low); }
  // Distances of the children, nearest first.
  std::vector<int> children() const {
    std::vector<int> distances;
    for (int bit = 1; bit < low && v + bit < n; bit *= 2) distances.push_back(bit);
    return distances;
  }
  // The child's subtree, which is all it sends or receives. A leaf has its own part only
  // and keeps it in its input or output.
  int child_size(int distance) const { return std::min(distance, n - v - distance); }
  Wire child_wire(int distance) const { return child_size(distance) == 1 ? Wire::element : Wire::accumulator; }
};

// Parts in order of rank, beginning with the root's, are slots 0, 1, ...
template <typename Add>
void for_both_halves(const Node& node, Add&& add) {
  add(0, node.root, node.n - node.root);
  if (node.root > 0) add(node.n - node.root, 0, node.root);
}

Program gather(const Request& request, int rank) {
  const Node node(request, rank);
  Builder builder(request, rank, request.ranks);
  if (node.size() == 1 && node.v != 0) {
    builder.loop(1).add(send(input(fixed(0)), node.parent(), kPart));
    return builder.take();
  }
  builder.scratch(node.size());
  builder.loop(1).add(copy(scratch(fixed(0)), input(fixed(0)), kPart));
  for (const int distance : node.children()) {
    builder.add(spanning(node.child_size(distance), receive(scratch(fixed(distance)), node.rank_of(node.v + distance),
                                                            kPart, node.child_wire(distance))));
  }
  builder.loop(1);
  if (node.v != 0) {
    builder.add(spanning(node.size(), send(scratch(fixed(0)), node.parent(), kPart)));
    return builder.take();
  }
  for_both_halves(node, [&](int slot, int part, int parts) {
    builder.add(spanning(parts, copy(output(fixed(part)), scratch(fixed(slot)), kPart)));
  });
  return builder.take();
}

Program scatter(const Request& request, int rank) {
  const Node node(request, rank);
  Builder builder(request, rank, request.ranks);
  builder.loop(1);
  if (node.size() == 1 && node.v != 0) {
    // A leaf's part comes as its parent holds it.
    builder.add(receive(output(fixed(0)), node.parent(), kPart, Wire::accumulator));
    return builder.take();
  }
  builder.scratch(node.size());
  if (node.v != 0) {
    builder.add(spanning(node.size(), receive(scratch(fixed(0)), node.parent(), kPart, Wire::accumulator)));
  } else {
    for_both_halves(node, [&](int slot, int part, int parts) {
      builder.add(spanning(parts, copy(scratch(fixed(slot)), input(fixed(part)), kPart)));
    });
  }
  builder.loop(1);
  const std::vector<int> children = node.children();
  for (auto distance = children.rbegin(); distance != children.rend(); ++distance) {
    builder.add(
        spanning(node.child_size(*distance), send(scratch(fixed(*distance)), node.rank_of(node.v + *distance), kPart)));
  }
  builder.add(copy(output(fixed(0)), scratch(fixed(0)), kPart));
  return builder.take();
}

constexpr Makers kMakers = {.gather = gather, .scatter = scatter};

bool supports(const Request& request) {
  return kMakers.covers(request) && !request.uneven();
}

Program program(const Request& request, int rank) {
  return kMakers.make(request, rank);
}

// A bound: the longest path passes log2 P ranks, whose messages halve or double.
double cost(const Request& request, const Network& network) {
  const double n = request.ranks;
  const double levels = std::bit_width(static_cast<unsigned>(request.ranks - 1));
  const double part = element_bytes(request, static_cast<double>(request.count));
  return levels * network.alpha_s + 2 * n * part * network.beta_s_per_byte + (n + 1) * part * network.gamma_s_per_byte;
}

}  // namespace

const Algorithm kBinomialParts = {"binomial_parts", "gather, scatter of even parts; any number of ranks", supports,
                                  program, cost};

}  // namespace trireme::plan
