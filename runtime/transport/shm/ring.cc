#include "runtime/transport/shm/ring.h"

#include <algorithm>
#include <new>

#include <trireme/base/check.h>

namespace trireme {
namespace {

constexpr auto kOrdered = std::memory_order_seq_cst;

std::byte* ring_data(RingPair* pair, int index) {
  return reinterpret_cast<std::byte*>(pair) + kRingDataOffset + static_cast<std::size_t>(index) * pair->capacity;
}

}  // namespace

RingPair* make_ring_pair(void* memory, std::size_t capacity) {
  auto* pair = new (memory) RingPair{};
  pair->capacity = capacity;
  for (RingWords& words : pair->words) words.room_seen.store(UINT64_MAX, std::memory_order_relaxed);
  pair->magic = kRingMagic;
  return pair;
}

RingWriter::RingWriter(RingPair* pair, int index)
    : words_(&pair->words[index]), data_(ring_data(pair, index)), capacity_(pair->capacity) {}

std::span<std::byte> RingWriter::reserve() {
  std::uint64_t head = words_->head.load(std::memory_order_acquire);
  while (tail_ - head > capacity_ / 2 && room_seen_ != head) {
    room_seen_ = head;
    words_->room_seen.store(head, kOrdered);
    head = words_->head.load(kOrdered);
  }
  const std::uint64_t used = tail_ - head;
  if (used > capacity_) {
    corrupt_ = true;
    offered_ = 0;
    return {};
  }
  const std::uint64_t position = tail_ & (capacity_ - 1);
  offered_ = std::min(capacity_ - used, capacity_ - position);
  return {data_ + position, offered_};
}

bool RingWriter::commit(std::size_t bytes) {
  TRIREME_CHECK(bytes <= offered_, "commit() of more bytes than reserve() showed");
  if (bytes == 0) return false;
  const std::uint64_t before = tail_;
  tail_ += bytes;
  offered_ -= bytes;
  words_->tail.store(tail_, kOrdered);
  return words_->data_seen.load(kOrdered) == before;
}

RingReader::RingReader(RingPair* pair, int index)
    : words_(&pair->words[index]), data_(ring_data(pair, index)), capacity_(pair->capacity) {}

std::span<const std::byte> RingReader::peek() {
  std::uint64_t tail = words_->tail.load(std::memory_order_acquire);
  while (tail != data_seen_) {
    data_seen_ = tail;
    words_->data_seen.store(tail, kOrdered);
    tail = words_->tail.load(kOrdered);
  }
  const std::uint64_t held = tail - head_;
  if (held > capacity_) {
    corrupt_ = true;
    offered_ = 0;
    return {};
  }
  const std::uint64_t position = head_ & (capacity_ - 1);
  offered_ = std::min(held, capacity_ - position);
  return {data_ + position, offered_};
}

bool RingReader::consume(std::size_t bytes) {
  TRIREME_CHECK(bytes <= offered_, "consume() of more bytes than peek() showed");
  if (bytes == 0) return false;
  const std::uint64_t before = head_;
  head_ += bytes;
  offered_ -= bytes;
  words_->head.store(head_, kOrdered);
  return words_->room_seen.load(kOrdered) == before;
}

bool RingReader::at_end() const {
  // Closed is read first: what was written before closing is then visible.
  if (words_->writer_closed.load(std::memory_order_acquire) == 0) return false;
  return words_->tail.load(std::memory_order_acquire) == head_;
}

}  // namespace trireme
