#include "collectives/execute/windows.h"

#include <algorithm>
#include <utility>

namespace trireme {

std::uint32_t Windows::add(std::vector<Part> parts, std::shared_ptr<void> keep) {
  windows_.push_back({next_, std::move(parts), std::move(keep)});
  return next_++;
}

bool Windows::remove(const void* base) {
  return std::erase_if(windows_, [&](const Window& window) { return window.parts[rank_].base == base; }) > 0;
}

std::size_t Windows::own_bytes() const {
  std::size_t bytes = 0;
  for (const Window& window : windows_) bytes += window.parts[rank_].bytes;
  return bytes;
}

std::optional<Windows::Place> Windows::find(const void* memory, std::size_t bytes) const {
  if (bytes == 0) return Place{};
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  for (const Window& window : windows_) {
    const Part& own = window.parts[rank_];
    const auto begin = reinterpret_cast<std::uintptr_t>(own.base);
    if (address < begin || address - begin > own.bytes || bytes > own.bytes - (address - begin)) continue;
    return Place{window.number, address - begin};
  }
  return std::nullopt;
}

std::optional<std::byte*> Windows::at(int rank, const Place& place, std::size_t bytes) const {
  if (place.window == Place::kNone) return nullptr;
  for (const Window& window : windows_) {
    if (window.number != place.window) continue;
    const Part& part = window.parts[static_cast<std::size_t>(rank)];
    if (place.offset > part.bytes || bytes > part.bytes - place.offset) return std::nullopt;
    return part.base + place.offset;
  }
  return std::nullopt;
}

}  // namespace trireme
