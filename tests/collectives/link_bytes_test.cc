// The bytes each algorithm puts on each link, counted from its programs, equal the
// formulas of docs/algorithms.md.
#include <gtest/gtest.h>

#include <bit>
#include <functional>
#include <map>
#include <string>

#include "collectives/algorithms/algorithm.h"
#include "collectives/plan/api/cursor.h"

namespace trireme::plan {
namespace {

using Links = std::map<std::pair<int, int>, std::int64_t>;

// What one operation moves between its rank and others: sent there, fetched from there,
// stored there.
void count_op(const Plan& plan, const Program& program, const Op& op, std::int32_t iteration, Links& links) {
  if (synchronizes(op)) return;
  const std::int64_t elements = program.elements(op.length.at(iteration), op.span);
  if (op.kind == OpKind::send) links[{program.rank, op.peer.at(iteration)}] += elements;
  if (op.kind == OpKind::fetch) links[{op.peer.at(iteration), program.rank}] += elements;
  for (int other = 0; other < plan.request.ranks; ++other) {
    if (op.kind == OpKind::fetch_reduce) links[{other, program.rank}] += elements;
    const bool there = op.placement == Placement::there && other == op.root;
    if (there || op.placement == Placement::everywhere) links[{program.rank, other}] += elements;
  }
}

// Elements that go from one rank to another.
Links count_elements(const Plan& plan) {
  Links links;
  for (const Program& program : plan.programs) {
    for (Cursor cursor(program); !cursor.at_end(); cursor.next()) {
      for (const Op& op : cursor.ops()) count_op(plan, program, op, cursor.iteration(), links);
    }
  }
  std::erase_if(links, [](const auto& link) { return link.second == 0 || link.first.first == link.first.second; });
  return links;
}

// P ranks, B elements a part (a P-th of all_reduce's buffer): elements from `a` to `b`.
using Formula = std::function<std::int64_t(int p, std::int64_t part, int a, int b)>;

struct Row {
  const Algorithm* algorithm;
  Collective collective;
  bool powers_only;
  Formula formula;
};

int distance(int p, int a, int b) {
  return (b - a + p) % p;
}
bool is_power(int x) {
  return std::has_single_bit(static_cast<unsigned>(x));
}
int runs(int p, int bit) {  // Numbers below p with that bit set.
  int count = 0;
  for (int i = 0; i < p; ++i) count += (i & bit) != 0;
  return count;
}
int farther(int p, int d) {  // Owners' distances 0, 2d, 4d, ... with d more still below p.
  return (p - d + 2 * d - 1) / (2 * d);
}
bool is_parent(int p, int parent, int child) {  // Of the binomial tree rooted at 0.
  return child != 0 && child < p && parent == (child & (child - 1));
}
std::int64_t subtree(int p, int v) {
  return std::min(v & -v, p - v);
}

const std::vector<Row>& rows() {
  static const std::vector<Row> table = {
      {&kExchange, Collective::all_reduce, false, [](int p, std::int64_t part, int, int) { return p * part; }},
      {&kExchange, Collective::reduce_scatter, false, [](int, std::int64_t part, int, int) { return part; }},
      {&kExchange, Collective::all_gather, false, [](int, std::int64_t part, int, int) { return part; }},
      {&kExchange, Collective::all_to_all, false, [](int, std::int64_t part, int, int) { return part; }},
      {&kExchange, Collective::broadcast, false, [](int, std::int64_t part, int a, int) { return a == 0 ? part : 0; }},
      {&kExchange, Collective::gather, false, [](int, std::int64_t part, int, int b) { return b == 0 ? part : 0; }},
      {&kExchange, Collective::scatter, false, [](int, std::int64_t part, int a, int) { return a == 0 ? part : 0; }},
      {&kSlices, Collective::all_reduce, false, [](int, std::int64_t part, int, int) { return 2 * part; }},
      {&kSlices, Collective::reduce_scatter, false, [](int, std::int64_t part, int, int) { return part; }},
      {&kSlices, Collective::all_gather, false, [](int, std::int64_t part, int, int) { return part; }},
      {&kSlices, Collective::all_to_all, false, [](int, std::int64_t part, int, int) { return part; }},
      {&kSlices, Collective::gather, false, [](int, std::int64_t part, int, int b) { return b == 0 ? part : 0; }},
      {&kSlices, Collective::scatter, false, [](int, std::int64_t part, int a, int) { return a == 0 ? part : 0; }},
      {&kDirect, Collective::all_reduce, false, [](int p, std::int64_t part, int, int) { return p * part; }},
      {&kDirect, Collective::reduce_scatter, false, [](int, std::int64_t part, int, int) { return part; }},
      {&kDirect, Collective::all_gather, false, [](int, std::int64_t part, int, int) { return part; }},
      {&kDirect, Collective::all_to_all, false, [](int, std::int64_t part, int, int) { return part; }},
      {&kDirect, Collective::gather, false, [](int, std::int64_t part, int, int b) { return b == 0 ? part : 0; }},
      {&kDirect, Collective::scatter, false, [](int, std::int64_t part, int a, int) { return a == 0 ? part : 0; }},
      {&kPairwise, Collective::all_reduce, false, [](int, std::int64_t part, int, int) { return 2 * part; }},
      {&kPairwise, Collective::reduce_scatter, false, [](int, std::int64_t part, int, int) { return part; }},
      {&kPairwise, Collective::all_gather, false, [](int, std::int64_t part, int, int) { return part; }},
      {&kPairwise, Collective::all_to_all, false, [](int, std::int64_t part, int, int) { return part; }},
      {&kRing, Collective::all_reduce, false,
       [](int p, std::int64_t part, int a, int b) { return distance(p, a, b) == 1 ? 2 * (p - 1) * part : 0; }},
      {&kRing, Collective::reduce_scatter, false,
       [](int p, std::int64_t part, int a, int b) { return distance(p, a, b) == 1 ? (p - 1) * part : 0; }},
      {&kRing, Collective::all_gather, false,
       [](int p, std::int64_t part, int a, int b) { return distance(p, a, b) == 1 ? (p - 1) * part : 0; }},
      {&kRecursiveDoubling, Collective::all_reduce, true,
       [](int p, std::int64_t part, int a, int b) { return is_power(a ^ b) ? p * part : 0; }},
      {&kRecursiveHalving, Collective::all_reduce, true,
       [](int, std::int64_t part, int a, int b) { return is_power(a ^ b) ? 2 * (a ^ b) * part : 0; }},
      {&kRecursiveHalving, Collective::reduce_scatter, true,
       [](int, std::int64_t part, int a, int b) { return is_power(a ^ b) ? (a ^ b) * part : 0; }},
      {&kRecursiveHalving, Collective::all_gather, true,
       [](int, std::int64_t part, int a, int b) { return is_power(a ^ b) ? (a ^ b) * part : 0; }},
      {&kBruck, Collective::all_gather, false,
       [](int p, std::int64_t part, int a, int b) {
         const int d = distance(p, b, a);
         return is_power(d) ? std::min(d, p - d) * part : 0;
       }},
      {&kBruck, Collective::all_to_all, false,
       [](int p, std::int64_t part, int a, int b) {
         const int d = distance(p, a, b);
         return is_power(d) ? runs(p, d) * part : 0;
       }},
      {&kPat, Collective::all_gather, false,
       [](int p, std::int64_t part, int a, int b) {
         const int d = distance(p, a, b);
         return is_power(d) ? farther(p, d) * part : 0;
       }},
      {&kPat, Collective::reduce_scatter, false,
       [](int p, std::int64_t part, int a, int b) {
         const int d = distance(p, b, a);
         return is_power(d) ? farther(p, d) * part : 0;
       }},
      {&kBinomialTree, Collective::broadcast, false,
       [](int p, std::int64_t part, int a, int b) { return is_parent(p, a, b) ? part : 0; }},
      {&kBinomialTree, Collective::reduce, false,
       [](int p, std::int64_t part, int a, int b) { return is_parent(p, b, a) ? part : 0; }},
      {&kBinomialParts, Collective::gather, false,
       [](int p, std::int64_t part, int a, int b) { return is_parent(p, b, a) ? subtree(p, a) * part : 0; }},
      {&kBinomialParts, Collective::scatter, false,
       [](int p, std::int64_t part, int a, int b) { return is_parent(p, a, b) ? subtree(p, b) * part : 0; }},
  };
  return table;
}

TEST(LinkBytes, EqualTheFormulas) {
  constexpr std::int64_t kPart = 6;
  for (const Row& row : rows()) {
    for (int p = 2; p <= 33; ++p) {
      if (row.powers_only && !is_power(p)) continue;
      const std::int64_t count = row.collective == Collective::all_reduce ? kPart * p : kPart;
      Request request{row.collective, p, 0, count, 4, false};
      request.shared_memory = request.windows = true;
      ASSERT_TRUE(row.algorithm->supports(request));
      const Links links = count_elements(make_plan(*row.algorithm, request));
      for (int a = 0; a < p; ++a) {
        for (int b = 0; b < p; ++b) {
          if (a == b) continue;
          const auto found = links.find({a, b});
          ASSERT_EQ(found == links.end() ? 0 : found->second, row.formula(p, kPart, a, b))
              << row.algorithm->name << " " << to_string(row.collective) << " P=" << p << " from " << a << " to " << b;
        }
      }
    }
  }
}

TEST(LinkBytes, HierarchicalSendsAShareOfEachRankAcross) {
  for (int per_host : {2, 3, 4}) {
    for (int hosts : {2, 3, 5}) {
      Request request{Collective::all_reduce, per_host * hosts, 0, 12 * per_host * hosts, 4, false};
      request.ranks_per_host = per_host;
      for (const auto& [link, elements] : count_elements(make_plan(kHierarchical, request))) {
        const bool inside = link.first / per_host == link.second / per_host;
        EXPECT_TRUE(inside || link.first % per_host == link.second % per_host);
        EXPECT_EQ(elements, inside ? 2 * 12 * hosts : 2 * 12);
      }
    }
  }
}

TEST(LinkBytes, HierarchicalPartsCrossOnce) {
  for (Collective collective : {Collective::all_gather, Collective::reduce_scatter}) {
    Request request{collective, 12, 0, 5, 4, false};
    request.ranks_per_host = 3;
    for (const auto& [link, elements] : count_elements(make_plan(kHierarchical, request))) {
      const bool inside = link.first / 3 == link.second / 3;
      EXPECT_TRUE(inside || link.first % 3 == link.second % 3);
      EXPECT_EQ(elements, inside ? 4 * 5 : 5);
    }
  }
  // A broadcast enters each host once.
  Request request{Collective::broadcast, 12, 7, 100, 4, false};
  request.ranks_per_host = 3;
  std::map<int, int> entered;
  for (const auto& [link, elements] : count_elements(make_plan(kHierarchical, request))) {
    EXPECT_EQ(elements, 100);
    if (link.first / 3 != link.second / 3) ++entered[link.second / 3];
  }
  EXPECT_EQ(entered, (std::map<int, int>{{0, 1}, {1, 1}, {3, 1}}));
}

// Each rank passes half of the buffer up and takes it down in each tree; an inner node of
// one is a leaf of the other, so no rank sends more than twice the buffer.
TEST(LinkBytes, DoubleTreesShareTheLoad) {
  for (int p = 3; p <= 64; ++p) {
    const std::int64_t count = 1000;
    const Links links = count_elements(make_plan(kDoubleBinaryTree, {Collective::all_reduce, p, 0, count, 4, false}));
    std::int64_t total = 0;
    std::map<int, std::int64_t> sent;
    for (const auto& [link, elements] : links) {
      EXPECT_EQ(elements % (count / 2), 0);
      total += elements;
      sent[link.first] += elements;
    }
    EXPECT_EQ(total, 2 * (p - 1) * count);
    for (const auto& [rank, elements] : sent) EXPECT_LE(elements, 2 * count) << p;
  }
}

}  // namespace
}  // namespace trireme::plan
