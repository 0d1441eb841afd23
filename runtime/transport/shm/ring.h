// A ring of bytes in shared memory with one writer and one reader.
//
// Positions count all bytes ever written (tail) and read (head), so that tail - head is
// what the ring holds. Every word has a single writer: the producer's words lie on one
// cache line, the consumer's on another.
//
// Waking without waste: each side notes the other's position that it has seen last
// (data_seen, room_seen). Who moves its position from p to q rings the other side only
// if the other side had seen p, that is, may have gone to sleep over it. Note and
// position are written and read with sequential consistency, the note before the
// position is read again: either the mover sees the note, or the noter sees the move.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace trireme {

struct RingWords {
  // Written by the producer.
  alignas(64) std::atomic<std::uint64_t> tail;
  std::atomic<std::uint64_t> room_seen;
  std::atomic<std::uint32_t> writer_closed;
  // Written by the consumer.
  alignas(64) std::atomic<std::uint64_t> head;
  std::atomic<std::uint64_t> data_seen;
  std::atomic<std::uint32_t> reader_closed;
};

// Two rings, as they lie in one heap: [0] carries bytes from the lower to the higher
// rank, [1] back. The data of ring i begins at kRingDataOffset + i * capacity.
struct RingPair {
  std::uint64_t magic;
  std::uint64_t capacity;  // Bytes per ring, a power of two.
  RingWords words[2];
};
inline constexpr std::uint64_t kRingMagic = 0x54524952494e4731;  // "TRIRING1"
inline constexpr std::size_t kRingDataOffset = 4096;
static_assert(sizeof(RingPair) <= kRingDataOffset);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "ring words are shared between processes");

inline std::size_t ring_pair_bytes(std::size_t capacity) {
  return kRingDataOffset + 2 * capacity;
}
// Makes an empty pair in zeroed memory.
RingPair* make_ring_pair(void* memory, std::size_t capacity);

class RingWriter {
 public:
  RingWriter() = default;
  RingWriter(RingPair* pair, int index);
  // Contiguous room. When less than half of the ring is free, it is noted as seen, so
  // that the reader rings when it makes more.
  std::span<std::byte> reserve();
  // Publishes; true when the reader must be rung.
  bool commit(std::size_t bytes);
  // True when the reader has made room since reserve() noted that it was short.
  bool room_grew() const { return words_->head.load(std::memory_order_relaxed) != room_seen_; }
  bool reader_closed() const { return words_->reader_closed.load(std::memory_order_acquire) != 0; }
  bool corrupt() const { return corrupt_; }
  void close() { words_->writer_closed.store(1, std::memory_order_seq_cst); }

 private:
  RingWords* words_ = nullptr;
  std::byte* data_ = nullptr;
  std::uint64_t capacity_ = 0;
  std::uint64_t tail_ = 0;
  std::uint64_t offered_ = 0;  // What reserve() showed: the most that commit() may take.
  std::uint64_t room_seen_ = UINT64_MAX;
  bool corrupt_ = false;
};

class RingReader {
 public:
  RingReader() = default;
  RingReader(RingPair* pair, int index);
  // Contiguous bytes that have arrived; their end is noted as seen.
  std::span<const std::byte> peek();
  // Frees; true when the writer must be rung.
  bool consume(std::size_t bytes);
  bool has_data() const { return words_->tail.load(std::memory_order_relaxed) != head_; }
  // True when the writer has closed and everything was consumed.
  bool at_end() const;
  bool corrupt() const { return corrupt_; }
  void close() { words_->reader_closed.store(1, std::memory_order_seq_cst); }

 private:
  RingWords* words_ = nullptr;
  const std::byte* data_ = nullptr;
  std::uint64_t capacity_ = 0;
  std::uint64_t head_ = 0;
  std::uint64_t offered_ = 0;
  std::uint64_t data_seen_ = 0;
  bool corrupt_ = false;
};

}  // namespace trireme
