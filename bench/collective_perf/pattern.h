// Pattern: inputs whose reductions are exact in any order of operands, and the results
// they must give.
//
// Values are small integers chosen so that no partial result leaves what the type holds
// exactly; they differ by rank and by element, and repeat after a prime number of
// elements, so that filling and checking run at the speed of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <trireme/base/data_type.h>

namespace trireme::bench {

class Pattern {
 public:
  Pattern(DataType type, ReduceOp op, int ranks);

  // Elements first .. first + count of what `rank` contributes.
  void fill(std::byte* data, int rank, std::uint64_t first, std::uint64_t count) const;
  // How many of `count` elements differ from the reduction over all ranks.
  std::uint64_t wrong_reduced(const std::byte* data, std::uint64_t first, std::uint64_t count) const;
  // ... from what `rank` contributes.
  std::uint64_t wrong_copied(const std::byte* data, int rank, std::uint64_t first, std::uint64_t count) const;

 private:
  using Tile = std::vector<std::byte>;
  double value(int rank, std::uint64_t index) const;
  double reduced(std::uint64_t index) const;
  void append(Tile& tile, double value) const;
  std::uint64_t wrong(const Tile& tile, const std::byte* data, std::uint64_t first, std::uint64_t count) const;

  DataType type_;
  ReduceOp op_;
  int ranks_;
  std::size_t width_;
  std::vector<Tile> inputs_;  // By rank, one period each.
  Tile result_;
};

}  // namespace trireme::bench
