#include <trireme/tensor/tensor.h>

#include <algorithm>

namespace trireme {

Shape Shape::of(std::span<const std::int64_t> extents) {
  TRIREME_CHECK(extents.size() <= kRankMax, "a shape has at most eight extents");
  Shape shape;
  std::copy(extents.begin(), extents.end(), shape.extents_.begin());
  shape.rank_ = static_cast<int>(extents.size());
  return shape;
}

bool Shape::operator==(const Shape& other) const {
  return rank_ == other.rank_ && std::equal(extents_.begin(), extents_.begin() + rank_, other.extents_.begin());
}

std::string Shape::to_string() const {
  std::string text = "[";
  for (int axis = 0; axis < rank_; ++axis) {
    if (axis > 0) text += ", ";
    text += std::to_string(extents_[static_cast<std::size_t>(axis)]);
  }
  return text + "]";
}

}  // namespace trireme
