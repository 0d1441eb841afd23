// ShmLink: what a channel and the transport's service thread share of one channel. The
// lower rank has the rings from the start and learns the peer's doorbell later; the
// higher rank gets both at once, when the hello arrives.
// Thread safety: all methods; heaps are set once.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include <trireme/base/status.h>
#include <trireme/memory/shared_heap.h>

#include "runtime/transport/api/doorbell.h"
#include "runtime/transport/api/peer_memory.h"
#include "runtime/transport/shm/ring.h"

namespace trireme {

class ShmLink {
 public:
  void set_rings(std::shared_ptr<SharedHeap> heap, RingPair* pair) {
    ring_heap_ = std::move(heap);
    pair_.store(pair, std::memory_order_seq_cst);
  }
  void set_bell(PeerBell bell) {
    bell_heap_ = std::move(bell.heap);
    bell_.store(bell.word, std::memory_order_seq_cst);
  }
  void fail(Status error) {
    const std::lock_guard lock(mutex_);
    if (!error_.is_ok()) return;
    error_ = std::move(error);
    failed_.store(true, std::memory_order_release);
  }
  // The channel's end is gone: nobody will read what arrives for it.
  void abandon() { abandoned_.store(true, std::memory_order_seq_cst); }

  // Null until the peer has come.
  RingPair* pair() const { return pair_.load(std::memory_order_seq_cst); }
  bool abandoned() const { return abandoned_.load(std::memory_order_seq_cst); }
  void ring_peer() const {
    if (DoorbellWord* word = bell_.load(std::memory_order_seq_cst)) Doorbell::ring(*word);
  }
  Status error() const {
    if (!failed_.load(std::memory_order_acquire)) return Status::ok();
    const std::lock_guard lock(mutex_);
    return error_;
  }

 private:
  std::shared_ptr<SharedHeap> ring_heap_;
  std::shared_ptr<SharedHeap> bell_heap_;
  std::atomic<RingPair*> pair_{nullptr};
  std::atomic<DoorbellWord*> bell_{nullptr};
  std::atomic<bool> failed_{false};
  std::atomic<bool> abandoned_{false};
  mutable std::mutex mutex_;
  Status error_;
};

}  // namespace trireme
