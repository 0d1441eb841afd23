// Double binary tree: every half of the buffer is reduced up one binary tree and sent
// down it again, and a rank that is an inner node of one tree is a leaf of the other.
//
// The first tree numbers ranks 1 .. P in order, so that odd numbers are leaves; the second
// one numbers them backwards (P even) or shifted by one (P odd). Chunks follow each other
// through both trees in turn. Every chunk is added up in one place, children before
// themselves in order of the tree, so all ranks get the same bits.
// Cost for P ranks, S bytes and C chunks a tree: about 2 (log2 P + C) steps of S / 2C
// bytes: latency grows with log2 P, and every rank sends about 2 S bytes.
// Source: Sanders, Speck, Traeff, "Two-tree algorithms for full bandwidth broadcast,
// reduction and scan", 2009.
#include <algorithm>
#include <bit>
#include <vector>

#include "collectives/algorithms/algorithm.h"
#include "collectives/algorithms/builder.h"

namespace trireme::plan {
namespace {

constexpr std::int64_t kChunkBytes = 128 * 1024;
constexpr std::int64_t kMostChunks = 128;

std::int32_t chunks_per_tree(const Request& request) {
  const std::int64_t bytes = request.count * request.element_bytes / 2;
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(bytes / kChunkBytes, 1, kMostChunks));
}

struct Place {
  int parent = -1;  // -1 for the root.
  std::vector<int> children;
};

// The root of the numbers low .. high: the one divisible by the highest power of two.
int root_of(int low, int high) {
  int root = high;
  while ((root & (root - 1)) >= low) root &= root - 1;
  return root;
}

// Where number `v` stands in the tree of 1 .. n.
Place place_of(int v, int n) {
  Place place;
  int low = 1;
  int high = n;
  for (int root = root_of(low, high); root != v; root = root_of(low, high)) {
    place.parent = root;
    (v < root ? high : low) = v < root ? root - 1 : root + 1;
  }
  if (low < v) place.children.push_back(root_of(low, v - 1));
  if (v < high) place.children.push_back(root_of(v + 1, high));
  return place;
}

// The two numberings and their inverses.
int number_of(int rank, int n, int tree) {
  if (tree == 0) return rank + 1;
  return n % 2 == 0 ? n - rank : (rank + n - 1) % n + 1;
}
int rank_of(int number, int n, int tree) {
  if (tree == 0) return number - 1;
  return n % 2 == 0 ? n - number : number % n;
}

Place place_of_rank(int rank, int n, int tree) {
  Place place = place_of(number_of(rank, n, tree), n);
  if (place.parent >= 0) place.parent = rank_of(place.parent, n, tree);
  for (int& child : place.children) child = rank_of(child, n, tree);
  return place;
}

// One chunk up: what the children send is added, the sum goes on. A leaf sends its input.
void add_reduction(Builder& builder, const Request& request, const Place& place, int tree, Affine chunk) {
  if (place.children.empty()) {
    builder.round().add(send(input(chunk), fixed(place.parent), chunk));
    return;
  }
  for (std::size_t i = 0; i < place.children.size(); ++i) {
    const int child = place.children[i];
    const bool leaf = place_of_rank(child, request.ranks, tree).children.empty();
    const bool finished = place.parent < 0 && i + 1 == place.children.size();
    builder.round().add(receive_after(finished ? output(chunk) : scratch(fixed(0)),
                                      i == 0 ? input(chunk) : scratch(fixed(0)), fixed(child), chunk,
                                      leaf ? Wire::element : Wire::accumulator, finished));
  }
  if (place.parent >= 0) builder.round().add(send(scratch(fixed(0)), fixed(place.parent), chunk));
}

void add_broadcast(Builder& builder, const Place& place, Affine chunk) {
  if (place.parent >= 0) builder.round().add(receive(output(chunk), fixed(place.parent), chunk));
  if (place.children.empty()) return;
  builder.round();
  for (const int child : place.children) builder.add(send(output(chunk), fixed(child), chunk));
}

// All ranks pass the chunks of both trees in the same order, so none waits in a circle.
Program program(const Request& request, int rank) {
  const std::int32_t chunks = chunks_per_tree(request);
  const Place places[] = {place_of_rank(rank, request.ranks, 0), place_of_rank(rank, request.ranks, 1)};
  Builder builder(request, rank, 2 * chunks);
  builder.scratch(1);
  builder.loop(chunks);
  for (int tree = 0; tree < 2; ++tree) add_reduction(builder, request, places[tree], tree, {tree * chunks, 1, 0});
  builder.loop(chunks);
  for (int tree = 0; tree < 2; ++tree) add_broadcast(builder, places[tree], {tree * chunks, 1, 0});
  return builder.take();
}

bool supports(const Request& request) {
  return request.collective == Collective::all_reduce && !request.ordered;
}

// A bound: an inner rank takes two messages and sends one (up), takes one and sends two
// (down), for each chunk of its tree, and is a leaf of the other.
double cost(const Request& request, const Network& network) {
  const double levels = std::bit_width(static_cast<unsigned>(request.ranks));
  const double chunks = chunks_per_tree(request);
  const double elements = largest_part(request.count, static_cast<std::int32_t>(2 * chunks));
  const double up = accumulator_bytes(request, elements) * (network.beta_s_per_byte + network.gamma_s_per_byte);
  const double down = element_bytes(request, elements) * network.beta_s_per_byte;
  return 2 * (levels + chunks - 1) * (2 * network.alpha_s + up + down);
}

}  // namespace

const Algorithm kDoubleBinaryTree = {"double_binary_tree", "all_reduce; any number of ranks", supports, program, cost};

}  // namespace trireme::plan
