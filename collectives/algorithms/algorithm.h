// The table of algorithms: each makes the program of one rank for a request, says for
// which requests it works, and what it costs.
//
// An algorithm is one file and one row of algorithms(). Programs of all ranks together
// pass plan::check_plan, in place and out of place; cost() is the closed form of what
// plan::simulate says (tests hold both). docs/algorithms.md compares them.
// Pure functions. REQUIRES for program and cost: supports(request) and ranks >= 2.
#pragma once

#include <span>
#include <string_view>

#include "collectives/plan/api/plan.h"
#include "collectives/plan/api/simulate.h"

namespace trireme::plan {

struct Algorithm {
  std::string_view name;
  std::string_view constraint;  // Where it works, for people: "any", "at most 16 ranks".
  bool (*supports)(const Request& request);
  Program (*program)(const Request& request, int rank);
  double (*cost)(const Request& request, const Network& network);  // Seconds.
};

// In order of preference at equal cost. The position is part of the wire signature.
std::span<const Algorithm> algorithms();
// Nullptr when there is none of that name.
const Algorithm* find_algorithm(std::string_view name);
// Every rank's program.
Plan make_plan(const Algorithm& algorithm, const Request& request);

// The rows, each defined in its own file.
extern const Algorithm kExchange;
extern const Algorithm kSlices;
extern const Algorithm kDirect;
extern const Algorithm kPairwise;
extern const Algorithm kRing;
extern const Algorithm kRecursiveDoubling;
extern const Algorithm kBinomialTree;
extern const Algorithm kDissemination;
extern const Algorithm kRecursiveHalving;
extern const Algorithm kBruck;
extern const Algorithm kBinomialParts;
extern const Algorithm kPat;
extern const Algorithm kDoubleBinaryTree;
extern const Algorithm kHierarchical;

}  // namespace trireme::plan
