#include <array>

#include "collectives/algorithms/algorithm.h"

namespace trireme::plan {

std::span<const Algorithm> algorithms() {
  static const std::array<Algorithm, 14> table = {
      kExchange,      kSlices, kDirect,           kRecursiveDoubling, kRecursiveHalving,
      kPairwise,      kRing,   kBinomialTree,     kDissemination,     kBruck,
      kBinomialParts, kPat,    kDoubleBinaryTree, kHierarchical,
  };
  return table;
}

const Algorithm* find_algorithm(std::string_view name) {
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.name == name) return &algorithm;
  }
  return nullptr;
}

Plan make_plan(const Algorithm& algorithm, const Request& request) {
  Plan plan{request, {}};
  for (int rank = 0; rank < request.ranks; ++rank) plan.programs.push_back(algorithm.program(request, rank));
  return plan;
}

}  // namespace trireme::plan
