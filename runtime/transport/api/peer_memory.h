// PeerMemory: a peer's memory, mapped here, and the way to wake that peer.
//
// Two ranks of one host exchange memory under a context: each gives a heap of its own and
// gets the other's. Neither waits: the peer's comes once it has given it, and this rank's
// doorbell rings then. Both give, in any order; the n-th exchange of a context by one rank
// of a pair meets the n-th of the other.
// Thread safety: all methods.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>

#include <trireme/base/status.h>
#include <trireme/memory/shared_heap.h>
#include <trireme/rendezvous/world.h>

#include "runtime/transport/api/doorbell.h"

namespace trireme {

// A doorbell in a peer's heap, mapped here.
struct PeerBell {
  std::shared_ptr<SharedHeap> heap;
  DoorbellWord* word = nullptr;
};

class PeerMemory {
 public:
  bool ready() const { return base_.load(std::memory_order_acquire) != nullptr; }
  // REQUIRES for these three: ready().
  std::byte* base() const { return base_.load(std::memory_order_relaxed); }
  std::size_t bytes() const { return bytes_; }
  void ring() const { Doorbell::ring(*bell_.word); }
  // ok, or why the memory will not come.
  Status status() const {
    if (!failed_.load(std::memory_order_acquire)) return Status::ok();
    const std::lock_guard lock(mutex_);
    return error_;
  }

  // The transport's part, once: what `heap` holds from `offset` on.
  void arrive(std::shared_ptr<SharedHeap> heap, std::size_t offset, PeerBell bell) {
    heap_ = std::move(heap);
    bell_ = std::move(bell);
    bytes_ = heap_->bytes() - offset;
    base_.store(heap_->base() + offset, std::memory_order_release);
  }
  void fail(Status error) {
    const std::lock_guard lock(mutex_);
    if (!error_.is_ok()) return;
    error_ = std::move(error);
    failed_.store(true, std::memory_order_release);
  }

 private:
  std::shared_ptr<SharedHeap> heap_;
  PeerBell bell_;
  std::size_t bytes_ = 0;
  std::atomic<std::byte*> base_{nullptr};
  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_;
  Status error_;
};

// Of a transport whose peers can map each other's memory.
class MemoryExchange {
 public:
  virtual ~MemoryExchange() = default;
  // Gives `own` from `offset` on to the peer; returns what will be the peer's. The heap's
  // descriptor may be closed after the call. Errors: peer_dead; what sending says.
  virtual Result<std::shared_ptr<PeerMemory>> exchange(const PeerInfo& peer, std::string_view peer_advertisement,
                                                       std::uint64_t context, const SharedHeap& own,
                                                       std::size_t offset) = 0;
};

}  // namespace trireme
