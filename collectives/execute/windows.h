// Windows: memory of every rank of a host that all of them map (Communicator::allocate).
//
// Every window has a part of each rank. A buffer that lies in this rank's part is named by
// window and offset, which mean the same to all ranks.
// Thread safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace trireme {

class Windows {
 public:
  struct Part {
    std::byte* base = nullptr;
    std::size_t bytes = 0;
  };
  // A place within a window. kNone for a buffer that has no bytes.
  struct Place {
    static constexpr std::uint32_t kNone = UINT32_MAX;
    std::uint32_t window = kNone;
    std::uint64_t offset = 0;
  };

  explicit Windows(int rank) : rank_(static_cast<std::size_t>(rank)) {}

  bool empty() const { return windows_.empty(); }
  // `parts` by rank; `keep` holds the memory. Returns the window's number, which grows.
  std::uint32_t add(std::vector<Part> parts, std::shared_ptr<void> keep);
  // Forgets the window whose own part begins at `base`. False when there is none.
  bool remove(const void* base);
  // Of this rank's memory, over all windows.
  std::size_t own_bytes() const;

  // Where [memory, memory + bytes) lies in this rank's parts; nullopt: not in one of them.
  std::optional<Place> find(const void* memory, std::size_t bytes) const;
  // That place in the part of `rank`. nullopt when there is none or it is too short.
  std::optional<std::byte*> at(int rank, const Place& place, std::size_t bytes) const;

 private:
  struct Window {
    std::uint32_t number = 0;
    std::vector<Part> parts;
    std::shared_ptr<void> keep;
  };
  std::size_t rank_;
  std::uint32_t next_ = 0;
  std::vector<Window> windows_;
};

}  // namespace trireme
