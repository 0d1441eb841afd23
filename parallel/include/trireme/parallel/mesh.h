// Mesh: the ranks of a job arranged along named axes.
//
// Every parallel engine owns one axis. Ranks are numbered row-major with the pipeline
// axis outermost and the tensor axis innermost, so that the axes that talk most join
// neighbouring ranks. All degrees are validated once, here; engines never check again.
// Engines exist for the data axis; a larger extent of another axis is refused by name.
//
// Thread safety: a value.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include <trireme/base/status.h>

namespace trireme {

enum class Axis { pipeline, data, context, expert, tensor };
inline constexpr int kAxisCount = 5;

// "pipeline", "data", ...
std::string_view to_string(Axis axis);

// How many ranks each axis has. `data` may be 0: whatever the other axes leave over.
struct MeshExtents {
  int pipeline = 1;
  int data = 0;
  int context = 1;
  int expert = 1;
  int tensor = 1;
};

class Mesh {
 public:
  // A mesh of one rank.
  Mesh() = default;
  // Errors: invalid_argument for an extent below 1 or a product that is not `ranks`, with
  // the arithmetic and the nearest extents that work; unsupported naming an axis that no
  // engine of this build executes.
  static Result<Mesh> create(const MeshExtents& extents, int rank, int ranks);

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  int extent(Axis axis) const { return extents_[static_cast<std::size_t>(axis)]; }
  // This rank's position along `axis`.
  int coordinate(Axis axis) const { return coordinates_[static_cast<std::size_t>(axis)]; }
  // "pipeline 1 x data 4 x context 1 x expert 1 x tensor 1 = 4 ranks"
  std::string to_string() const;

 private:
  std::array<int, kAxisCount> extents_{1, 1, 1, 1, 1};
  std::array<int, kAxisCount> coordinates_{0, 0, 0, 0, 0};
  int rank_ = 0;
  int ranks_ = 1;
};

}  // namespace trireme
