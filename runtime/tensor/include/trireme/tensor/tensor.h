// Tensor: a view of typed memory as a value. It owns nothing; arenas and users do.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include <trireme/base/check.h>
#include <trireme/base/data_type.h>

namespace trireme {

// Up to eight extents, outermost first. A scalar has rank 0 and one element.
class Shape {
 public:
  static constexpr int kRankMax = 8;
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents) {
    TRIREME_CHECK(extents.size() <= kRankMax, "a shape has at most eight extents");
    for (std::int64_t extent : extents) extents_[static_cast<std::size_t>(rank_++)] = extent;
  }
  static Shape of(std::span<const std::int64_t> extents);
  int rank() const { return rank_; }
  std::int64_t operator[](int axis) const { return extents_[static_cast<std::size_t>(axis)]; }
  std::int64_t elements() const {
    std::int64_t count = 1;
    for (int axis = 0; axis < rank_; ++axis) count *= extents_[static_cast<std::size_t>(axis)];
    return count;
  }
  bool operator==(const Shape& other) const;
  std::string to_string() const;  // "[4, 256]"

 private:
  std::array<std::int64_t, kRankMax> extents_{};
  int rank_ = 0;
};

// Dense, row-major.
struct Tensor {
  void* data = nullptr;
  DataType type = DataType::f32;
  Shape shape;

  std::int64_t elements() const { return shape.elements(); }
  std::size_t bytes() const { return static_cast<std::size_t>(elements()) * size_of(type); }
  // REQUIRES: T is the C++ type of `type` (float for f32, std::uint16_t for bf16, ...).
  template <typename T>
  T* as() const {
    TRIREME_DCHECK(sizeof(T) == size_of(type), "element size and data type differ");
    return static_cast<T*>(data);
  }
};

}  // namespace trireme
