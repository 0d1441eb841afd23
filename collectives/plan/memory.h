// Symbolic memory of one rank: what the checker knows about every chunk.
#pragma once

#include <cstdint>
#include <vector>

#include <trireme/base/status.h>

#include "collectives/plan/api/plan.h"

namespace trireme::plan {

// A set of ranks.
class RankSet {
 public:
  RankSet() = default;
  explicit RankSet(int ranks) : words_((static_cast<std::size_t>(ranks) + 63) / 64) {}
  void insert(int rank) { words_[static_cast<std::size_t>(rank) / 64] |= std::uint64_t{1} << (rank % 64); }
  bool contains(int rank) const { return (words_[static_cast<std::size_t>(rank) / 64] >> (rank % 64)) & 1; }
  int size() const;
  bool intersects(const RankSet& other) const;
  // The lowest and the highest rank. REQUIRES: not empty.
  int first() const;
  int last() const;
  void add(const RankSet& other);
  bool operator==(const RankSet&) const = default;

 private:
  std::vector<std::uint64_t> words_;
};

struct Value {
  bool readable = false;    // Written, or an input that carries data.
  std::int32_t chunk = -1;  // Which chunk of the collective's domain it is about.
  RankSet contributions;
  bool finished = false;
  std::uint64_t expression = 0;  // Hash of the tree of operands: equal trees, equal bits.
};

class Memory {
 public:
  Memory(const Request& request, const Program& program, bool in_place);

  // The cell of chunk `i` of the span that `reference` names in `iteration`; cells of
  // overlaid buffers coincide. Errors: invalid_argument when it is out of bounds.
  Result<std::size_t> cell(const Reference& reference, std::int32_t iteration, std::int32_t i = 0) const;
  Value& value(std::size_t cell) { return cells_[cell]; }
  const Value& value(std::size_t cell) const { return cells_[cell]; }
  // Capacity in elements of that chunk. REQUIRES: in bounds.
  std::int64_t capacity(const Reference& reference, std::int32_t iteration, std::int32_t i = 0) const;

  // ok when the outputs hold what the collective promises this rank.
  Status check_outputs() const;
  // Domain chunk of output chunk `i`, and the set of ranks it must come from.
  std::int32_t output_domain_chunk(std::int32_t i) const;
  RankSet required(std::int32_t domain_chunk) const;
  // True when the request gives this rank an output.
  bool has_output() const;
  std::size_t output_cell(std::int32_t i) const;

 private:
  void fill_inputs();
  std::size_t overlaid_input(std::int32_t chunk) const;
  const Request& request_;
  const Program& program_;
  bool in_place_;
  std::vector<Value> cells_;
};

std::uint64_t leaf_expression(int rank, std::int32_t chunk);
std::uint64_t combined_expression(std::uint64_t left, std::uint64_t right);

}  // namespace trireme::plan
