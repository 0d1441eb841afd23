#include <trireme/parallel/mesh.h>

#include <fmt/core.h>

namespace trireme {

namespace {

constexpr std::string_view kAxisNames[kAxisCount] = {"pipeline", "data", "context", "expert", "tensor"};

std::string product_text(const std::array<int, kAxisCount>& extents) {
  std::string text;
  for (int axis = 0; axis < kAxisCount; ++axis) {
    text += fmt::format("{}{} {}", axis == 0 ? "" : " x ", kAxisNames[axis], extents[static_cast<std::size_t>(axis)]);
  }
  return text;
}

Status check_product(const std::array<int, kAxisCount>& extents, int ranks) {
  std::int64_t product = 1;
  for (int extent : extents) product *= extent;
  if (product == ranks) return Status::ok();
  const std::int64_t others = product / extents[static_cast<std::size_t>(Axis::data)];
  const std::string advice =
      ranks % others == 0
          ? fmt::format("Use data {} (--dp {}), or start {} ranks", ranks / others, ranks / others, product)
          : fmt::format("The other axes need a multiple of {} ranks; start {} ranks", others, product);
  return invalid_argument(
      fmt::format("mesh: {} = {} ranks, but the job has {}. {}", product_text(extents), product, ranks, advice));
}

}  // namespace

std::string_view to_string(Axis axis) {
  return kAxisNames[static_cast<std::size_t>(axis)];
}

Result<Mesh> Mesh::create(const MeshExtents& wanted, int rank, int ranks) {
  std::array<int, kAxisCount> extents{wanted.pipeline, wanted.data, wanted.context, wanted.expert, wanted.tensor};
  std::int64_t others = 1;
  for (int axis = 0; axis < kAxisCount; ++axis) {
    const bool is_data = axis == static_cast<int>(Axis::data);
    const int extent = extents[static_cast<std::size_t>(axis)];
    if (extent < (is_data ? 0 : 1) || extent > 1'000'000) {
      return invalid_argument(fmt::format("mesh: the {} axis has extent {}; expected 1 to 1000000{}", kAxisNames[axis],
                                          extent, is_data ? ", or 0 for whatever the other axes leave" : ""));
    }
    if (!is_data) others *= extent;
    if (others > 1'000'000'000) return invalid_argument("mesh: the extents' product exceeds any number of ranks");
  }
  int& data = extents[static_cast<std::size_t>(Axis::data)];
  if (data == 0) data = others <= ranks ? static_cast<int>(ranks / others) : 1;
  TRIREME_RETURN_IF_ERROR(check_product(extents, ranks));
  for (int axis = 0; axis < kAxisCount; ++axis) {
    if (axis == static_cast<int>(Axis::data) || extents[static_cast<std::size_t>(axis)] == 1) continue;
    return unsupported(
        fmt::format("mesh: the {} axis has extent {}, but this build runs only the data axis with more than "
                    "one rank. Set {} to 1",
                    kAxisNames[axis], extents[static_cast<std::size_t>(axis)], kAxisNames[axis]));
  }
  Mesh mesh;
  mesh.extents_ = extents;
  mesh.rank_ = rank;
  mesh.ranks_ = ranks;
  int rest = rank;
  for (int axis = kAxisCount - 1; axis >= 0; --axis) {
    const auto index = static_cast<std::size_t>(axis);
    mesh.coordinates_[index] = rest % extents[index];
    rest /= extents[index];
  }
  return mesh;
}

std::string Mesh::to_string() const {
  return fmt::format("{} = {} rank{}", product_text(extents_), ranks_, ranks_ == 1 ? "" : "s");
}

}  // namespace trireme
