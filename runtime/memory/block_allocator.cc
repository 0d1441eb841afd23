#include "runtime/memory/block_allocator.h"

#include <iterator>

#include <trireme/base/check.h>

namespace trireme {

BlockAllocator::BlockAllocator(std::size_t bytes) {
  if (bytes >= kAlignment) insert_free(0, bytes / kAlignment * kAlignment);
}

void BlockAllocator::insert_free(std::size_t offset, std::size_t bytes) {
  by_offset_.emplace(offset, bytes);
  by_size_.emplace(bytes, offset);
  free_bytes_ += bytes;
}

void BlockAllocator::erase_free(std::map<std::size_t, std::size_t>::iterator block) {
  free_bytes_ -= block->second;
  by_size_.erase({block->second, block->first});
  by_offset_.erase(block);
}

std::optional<std::size_t> BlockAllocator::allocate(std::size_t bytes) {
  if (bytes > free_bytes_) return std::nullopt;
  const std::size_t wanted = bytes == 0 ? kAlignment : (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const auto found = by_size_.lower_bound({wanted, 0});
  if (found == by_size_.end()) return std::nullopt;
  const auto [size, offset] = *found;
  erase_free(by_offset_.find(offset));
  if (size > wanted) insert_free(offset + wanted, size - wanted);
  live_.emplace(offset, wanted);
  return offset;
}

void BlockAllocator::deallocate(std::size_t offset) {
  const auto block = live_.find(offset);
  TRIREME_CHECK(block != live_.end(), "memory is freed that was not allocated here, or is freed twice");
  std::size_t begin = offset;
  std::size_t end = offset + block->second;
  live_.erase(block);
  auto after = by_offset_.lower_bound(begin);
  if (after != by_offset_.end() && after->first == end) {
    end += after->second;
    erase_free(after);
  }
  after = by_offset_.lower_bound(begin);
  if (after != by_offset_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == begin) {
      begin = before->first;
      erase_free(before);
    }
  }
  insert_free(begin, end - begin);
}

}  // namespace trireme
