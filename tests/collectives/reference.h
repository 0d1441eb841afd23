// An independent, slow reference of every collective: element by element, in double.
//
// Inputs are small integers, so sums are exact in f32 in any order and each result is
// known to the bit; low-precision types round once, at the end.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <trireme/base/data_type.h>

namespace trireme::test {

// Element `index` of what `rank` contributes: differs by rank and by element.
double input_value(DataType type, ReduceOp op, int rank, std::size_t index);
// The reduction of one element over ranks, rounded or wrapped to the type.
double reduced_value(DataType type, ReduceOp op, int ranks, std::size_t index);

double load(DataType type, const std::byte* data, std::size_t index);
void store(DataType type, std::byte* data, std::size_t index, double value);
// The value after one store and load.
double rounded(DataType type, double value);

// `count` elements that `rank` contributes, beginning with element `first`.
std::vector<std::byte> make_input(DataType type, ReduceOp op, int rank, std::size_t count, std::size_t first = 0);

// "" when equal, else the first difference.
std::string compare_reduced(DataType type, ReduceOp op, int ranks, const std::byte* got, std::size_t count,
                            std::size_t first = 0);
std::string compare_copied(DataType type, ReduceOp op, int rank, const std::byte* got, std::size_t count,
                           std::size_t first = 0);

}  // namespace trireme::test
