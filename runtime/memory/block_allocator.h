// BlockAllocator: which parts of a region are taken. It knows offsets only and keeps its
// books outside the region (which another process may map and write).
//
// Best fit: the smallest free block that is large enough, the lowest of equals; freed
// blocks merge with free neighbours at once, so free blocks never touch. O(log n).
// Thread safety: none; SharedHeap locks.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace trireme {

class BlockAllocator {
 public:
  static constexpr std::size_t kAlignment = 64;

  explicit BlockAllocator(std::size_t bytes);
  // Offset of a block of at least `bytes` (rounded up to the alignment; 0 counts as 1).
  std::optional<std::size_t> allocate(std::size_t bytes);
  // REQUIRES: `offset` is of a live allocation.
  void deallocate(std::size_t offset);
  std::size_t free_bytes() const { return free_bytes_; }
  std::size_t largest_free_bytes() const { return by_size_.empty() ? 0 : by_size_.rbegin()->first; }
  std::size_t live_blocks() const { return live_.size(); }

 private:
  void insert_free(std::size_t offset, std::size_t bytes);
  void erase_free(std::map<std::size_t, std::size_t>::iterator block);

  std::map<std::size_t, std::size_t> by_offset_;           // Free: offset, bytes.
  std::set<std::pair<std::size_t, std::size_t>> by_size_;  // The same: bytes, offset.
  std::map<std::size_t, std::size_t> live_;                // Taken: offset, bytes.
  std::size_t free_bytes_ = 0;
};

}  // namespace trireme
