// Binomial tree: broadcast from the root outwards, reduce towards it.
//
// Ranks are numbered from the root (v = rank - root modulo P). The parent of v is v
// without its lowest set bit; its children are v + 2^k for every 2^k below that bit. A
// large buffer is cut into chunks that follow each other through the tree: a rank
// receives chunk i while it sends chunk i - 1 on. A reduction adds the children in
// order of their number behind the rank's own contribution.
// Cost for P ranks, S bytes and C chunks: about (log2 P + C - 1) steps of S / C bytes,
// where the root sends each chunk log2 P times.
#include <algorithm>
#include <bit>
#include <vector>

#include "collectives/algorithms/algorithm.h"
#include "collectives/algorithms/builder.h"

namespace trireme::plan {
namespace {

constexpr std::int64_t kChunkBytes = 128 * 1024;
constexpr std::int64_t kMostChunks = 256;

std::int32_t chunk_count(const Request& request) {
  const std::int64_t bytes = request.count * request.element_bytes;
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(bytes / kChunkBytes, 1, kMostChunks));
}

struct Tree {
  int parent = -1;            // -1 for the root.
  std::vector<int> children;  // Nearest first.
};

Tree tree_of(const Request& request, int rank) {
  const int n = request.ranks;
  const int v = (rank - request.root + n) % n;
  const int low = v == 0 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(n))) : v & -v;
  Tree tree;
  if (v != 0) tree.parent = (v - low + request.root) % n;
  for (int bit = 1; bit < low && v + bit < n; bit *= 2) tree.children.push_back((v + bit + request.root) % n);
  return tree;
}

// Sends chunk(s) of `source` to all children, those with the largest subtrees first.
void add_sends(Builder& builder, const Tree& tree, Reference source, Affine chunk) {
  for (auto child = tree.children.rbegin(); child != tree.children.rend(); ++child) {
    builder.add(send(source, fixed(*child), chunk));
  }
}

Program broadcast(const Request& request, int rank) {
  const std::int32_t chunks = chunk_count(request);
  const Tree tree = tree_of(request, rank);
  const Affine each{0, 1, 0};
  Builder builder(request, rank, chunks);
  if (tree.parent < 0) {
    builder.loop(chunks);
    add_sends(builder, tree, input(each), each);
    builder.add(copy(output(each), input(each), each));
    return builder.take();
  }
  const auto receive_chunk = [&](Affine chunk) { builder.add(receive(output(chunk), fixed(tree.parent), chunk)); };
  if (tree.children.empty()) {
    builder.loop(chunks);
    receive_chunk(each);
    return builder.take();
  }
  builder.loop(1);
  receive_chunk(fixed(0));
  builder.loop(chunks - 1);
  add_sends(builder, tree, output(each), each);
  receive_chunk({1, 1, 0});
  builder.loop(1);
  add_sends(builder, tree, output(fixed(chunks - 1)), fixed(chunks - 1));
  return builder.take();
}

Program reduce_at_root(const Request& request, int rank, const Tree& tree) {
  const Affine each{0, 1, 0};
  Builder builder(request, rank, chunk_count(request));
  builder.scratch(1);
  builder.loop(chunk_count(request));
  const std::size_t last = tree.children.size() - 1;
  for (std::size_t i = 0; i <= last; ++i) {
    if (i > 0) builder.round();
    // A child that is a leaf sends its input as it is.
    const bool leaf = tree_of(request, tree.children[i]).children.empty();
    builder.add(receive_after(i == last ? output(each) : scratch(fixed(0)), i == 0 ? input(each) : scratch(fixed(0)),
                              fixed(tree.children[i]), each, leaf ? Wire::element : Wire::accumulator, i == last));
  }
  return builder.take();
}

// The rounds that add the children's chunk, `first` being the chunk's function of the
// iteration; in the first of them `earlier` (a send of the chunk before) goes along.
void add_children(Builder& builder, const Request& request, const Tree& tree, Affine chunk, Affine slot,
                  const Op* earlier) {
  for (std::size_t i = 0; i < tree.children.size(); ++i) {
    if (i > 0) builder.round();
    if (i == 0 && earlier != nullptr) builder.add(*earlier);
    const bool leaf = tree_of(request, tree.children[i]).children.empty();
    builder.add(receive_after(scratch(slot), i == 0 ? input(chunk) : scratch(slot), fixed(tree.children[i]), chunk,
                              leaf ? Wire::element : Wire::accumulator));
  }
}

Program reduce_program(const Request& request, int rank) {
  const std::int32_t chunks = chunk_count(request);
  const Tree tree = tree_of(request, rank);
  if (tree.parent < 0) return reduce_at_root(request, rank, tree);
  const Affine each{0, 1, 0};
  Builder builder(request, rank, chunks);
  if (tree.children.empty()) {
    builder.loop(chunks).add(send(input(each), fixed(tree.parent), each));
    return builder.take();
  }
  builder.scratch(2);
  builder.loop(1);
  add_children(builder, request, tree, fixed(0), fixed(0), nullptr);
  const Op earlier = send(scratch(around(0, 1, 2)), fixed(tree.parent), each);
  builder.loop(chunks - 1);
  add_children(builder, request, tree, {1, 1, 0}, around(1, 1, 2), &earlier);
  builder.loop(1).add(send(scratch(fixed((chunks - 1) % 2)), fixed(tree.parent), fixed(chunks - 1)));
  return builder.take();
}

// Operands are combined in order of rank when the root is rank 0.
bool supports(const Request& request) {
  return request.collective == Collective::broadcast ||
         (request.collective == Collective::reduce && (!request.ordered || request.root == 0));
}

Program program(const Request& request, int rank) {
  return request.collective == Collective::broadcast ? broadcast(request, rank) : reduce_program(request, rank);
}

// An upper bound: every rank of the longest path handles log2 P messages per chunk.
double cost(const Request& request, const Network& network) {
  const double levels = std::bit_width(static_cast<unsigned>(request.ranks - 1));
  const double chunks = chunk_count(request);
  const double elements = largest_part(request.count, static_cast<std::int32_t>(chunks));
  const bool combines = request.collective == Collective::reduce;
  const double bytes = combines ? accumulator_bytes(request, elements) : element_bytes(request, elements);
  const double message = bytes * (network.beta_s_per_byte + (combines ? network.gamma_s_per_byte : 0));
  return levels * network.alpha_s + levels * message + (chunks - 1) * (network.alpha_s + levels * message);
}

}  // namespace

const Algorithm kBinomialTree = {"binomial_tree", "broadcast, reduce; any number of ranks", supports, program, cost};

}  // namespace trireme::plan
