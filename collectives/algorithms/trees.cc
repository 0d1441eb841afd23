#include "collectives/algorithms/trees.h"

#include <algorithm>

namespace trireme::plan {
namespace {

constexpr std::int64_t kChunkBytes = 128 * 1024;
constexpr std::int64_t kMostChunks = 256;

}  // namespace

std::int32_t tree_chunks(const Request& request) {
  const std::int64_t bytes = request.count * request.element_bytes;
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(bytes / kChunkBytes, 1, kMostChunks));
}

namespace {

// Sends chunk(s) of `source` to all children, those with the largest subtrees first.
void add_sends(Builder& builder, const Tree& tree, Reference source, Affine chunk) {
  for (auto child = tree.children.rbegin(); child != tree.children.rend(); ++child) {
    builder.add(send(source, fixed(*child), chunk));
  }
}

}  // namespace

Program tree_broadcast(const Request& request, int rank, const TreeOf& tree_of) {
  const std::int32_t chunks = tree_chunks(request);
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

namespace {

Program reduce_at_root(const Request& request, int rank, const Tree& tree, const TreeOf& tree_of) {
  const Affine each{0, 1, 0};
  Builder builder(request, rank, tree_chunks(request));
  builder.scratch(1);
  builder.loop(tree_chunks(request));
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
void add_children(Builder& builder, const Request& request, const Tree& tree, const TreeOf& tree_of, Affine chunk,
                  Affine slot, const Op* earlier) {
  for (std::size_t i = 0; i < tree.children.size(); ++i) {
    if (i > 0) builder.round();
    if (i == 0 && earlier != nullptr) builder.add(*earlier);
    const bool leaf = tree_of(request, tree.children[i]).children.empty();
    builder.add(receive_after(scratch(slot), i == 0 ? input(chunk) : scratch(slot), fixed(tree.children[i]), chunk,
                              leaf ? Wire::element : Wire::accumulator));
  }
}

}  // namespace

Program tree_reduce(const Request& request, int rank, const TreeOf& tree_of) {
  const std::int32_t chunks = tree_chunks(request);
  const Tree tree = tree_of(request, rank);
  if (tree.parent < 0) return reduce_at_root(request, rank, tree, tree_of);
  const Affine each{0, 1, 0};
  Builder builder(request, rank, chunks);
  if (tree.children.empty()) {
    builder.loop(chunks).add(send(input(each), fixed(tree.parent), each));
    return builder.take();
  }
  builder.scratch(2);
  builder.loop(1);
  add_children(builder, request, tree, tree_of, fixed(0), fixed(0), nullptr);
  const Op earlier = send(scratch(around(0, 1, 2)), fixed(tree.parent), each);
  builder.loop(chunks - 1);
  add_children(builder, request, tree, tree_of, {1, 1, 0}, around(1, 1, 2), &earlier);
  builder.loop(1).add(send(scratch(fixed((chunks - 1) % 2)), fixed(tree.parent), fixed(chunks - 1)));
  return builder.take();
}

}  // namespace trireme::plan
