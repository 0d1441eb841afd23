// Pipelined broadcast and reduction along any tree: a large buffer is cut into chunks that
// follow each other; a rank receives chunk i while it sends chunk i - 1 on. A reduction
// adds the children in the order of its list behind the rank's own contribution.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "collectives/algorithms/builder.h"

namespace trireme::plan {

struct Tree {
  int parent = -1;            // -1 for the root.
  std::vector<int> children;  // A broadcast sends to the last one first.
};
// A rank's place in the tree of the request's root.
using TreeOf = std::function<Tree(const Request& request, int rank)>;

std::int32_t tree_chunks(const Request& request);
Program tree_broadcast(const Request& request, int rank, const TreeOf& tree_of);
Program tree_reduce(const Request& request, int rank, const TreeOf& tree_of);

}  // namespace trireme::plan
