// Binomial tree: broadcast from the root outwards, reduce towards it.
//
// Ranks are numbered from the root (v = rank - root modulo P). The parent of v is v
// without its lowest set bit; its children are v + 2^k for every 2^k below that bit. A
// large buffer is cut into chunks that follow each other through the tree: a rank
// receives chunk i while it sends chunk i - 1 on. A reduction adds the children in
// order of their number behind the rank's own contribution.
// Cost for P ranks, S bytes and C chunks: about (log2 P + C - 1) steps of S / C bytes,
// where the root sends each chunk log2 P times.
#include <bit>

#include "collectives/algorithms/algorithm.h"
#include "collectives/algorithms/builder.h"
#include "collectives/algorithms/trees.h"

namespace trireme::plan {
namespace {

Tree tree_of(const Request& request, int rank) {
  const int n = request.ranks;
  const int v = (rank - request.root + n) % n;
  const int low = v == 0 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(n))) : v & -v;
  Tree tree;
  if (v != 0) tree.parent = (v - low + request.root) % n;
  for (int bit = 1; bit < low && v + bit < n; bit *= 2) tree.children.push_back((v + bit + request.root) % n);
  return tree;
}

// Operands are combined in order of rank when the root is rank 0.
bool supports(const Request& request) {
  return request.collective == Collective::broadcast ||
         (request.collective == Collective::reduce && (!request.ordered || request.root == 0));
}

Program program(const Request& request, int rank) {
  return request.collective == Collective::broadcast ? tree_broadcast(request, rank, tree_of)
                                                     : tree_reduce(request, rank, tree_of);
}

// An upper bound: every rank of the longest path handles log2 P messages per chunk.
double cost(const Request& request, const Network& network) {
  const double levels = std::bit_width(static_cast<unsigned>(request.ranks - 1));
  const double chunks = tree_chunks(request);
  const double elements = largest_part(request.count, static_cast<std::int32_t>(chunks));
  const bool combines = request.collective == Collective::reduce;
  const double bytes = combines ? accumulator_bytes(request, elements) : element_bytes(request, elements);
  const double message = bytes * (network.beta_s_per_byte + (combines ? network.gamma_s_per_byte : 0));
  return levels * network.alpha_s + levels * message + (chunks - 1) * (network.alpha_s + levels * message);
}

}  // namespace

const Algorithm kBinomialTree = {"binomial_tree", "broadcast, reduce; any number of ranks", supports, program, cost};

}  // namespace trireme::plan
