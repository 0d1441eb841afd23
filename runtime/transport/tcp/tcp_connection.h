// One socket between two ranks, with a send buffer and a receive buffer. It exists from
// the opening of its channel, before there is a socket (what is sent meanwhile waits in
// the send buffer), and outlives the channel until the send buffer is empty.
//
// The socket is watched one shot at a time. A bit of `armed_` means: a call found the
// socket not ready and the service thread has not seen it become ready since. While the
// bit for reading is set, nobody need ask the kernel again.
// Thread safety: attach() and fail() from any thread, once; close() and the data calls
// on the channel's thread; both sides meet under the mutex.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include <trireme/base/status.h>
#include <trireme/platform/clock.h>

#include "runtime/platform/api/unique_fd.h"
#include "runtime/transport/api/reactor.h"

namespace trireme {

// Counts the connections whose channel is gone but whose bytes are not.
// Thread safety: all methods.
class TcpLingering {
 public:
  void begin();
  void end();
  // Waits until none lingers; false when the deadline passed first.
  bool wait(Deadline deadline);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

class TcpConnection : public std::enable_shared_from_this<TcpConnection> {
 public:
  TcpConnection(std::shared_ptr<Reactor> reactor, std::shared_ptr<TcpLingering> lingering,
                std::function<void()> ring_doorbell, std::size_t buffer_bytes);

  // The handshake is done, or will never be.
  void attach(UniqueFd fd);
  void fail(Status error);

  std::span<std::byte> reserve();
  void commit(std::size_t bytes);
  std::span<const std::byte> peek();
  void consume(std::size_t bytes);
  std::size_t send_some(std::span<const std::byte> data);
  std::size_t receive_some(std::span<std::byte> data);
  bool progress();
  bool drained();
  Status error();
  // An attempt to move bytes found that the peer has closed.
  bool ended() const { return ended_.load(std::memory_order_acquire); }
  // The channel is gone: flushes what is buffered, then closes when the peer has it, be
  // what the peer sends read or not. Nothing is owed to a peer that is dead.
  void close(bool peer_is_dead);

 private:
  void on_ready();
  void arm(std::uint32_t events);                              // REQUIRES: mutex_ held.
  void flush();                                                // REQUIRES: mutex_ held.
  void close_if_done();                                        // REQUIRES: mutex_ held.
  bool delivered();                                            // REQUIRES: mutex_ held.
  std::size_t buffer(std::span<const std::byte> data);         // REQUIRES: mutex_ held.
  std::size_t send_directly(std::span<const std::byte> data);  // REQUIRES: mutex_ held.
  std::size_t receive(std::span<std::byte> into);
  void fill();
  std::size_t take_buffered(std::span<std::byte> into);
  void note_end();
  std::size_t room() const { return send_.size() - (send_tail_ - send_head_); }

  std::shared_ptr<Reactor> reactor_;
  std::shared_ptr<TcpLingering> lingering_;
  std::function<void()> ring_doorbell_;
  std::mutex mutex_;
  UniqueFd fd_;  // Set once, before connected_.
  Reactor::Token token_ = 0;
  std::atomic<bool> connected_{false};
  std::atomic<bool> ended_{false};
  std::atomic<bool> failed_{false};
  std::atomic<std::uint32_t> armed_{0};
  bool closing_ = false;
  bool lingers_ = false;
  bool gone_ = false;           // Closed: a socket that comes now is not wanted.
  bool looks_again_ = false;    // A timer runs.
  std::uint64_t pause_ms_ = 0;  // To the next look; 0: the end is not announced yet.
  Status error_;

  std::vector<std::byte> send_;  // A ring; positions count all bytes.
  std::size_t send_head_ = 0;
  std::size_t send_tail_ = 0;
  std::vector<std::byte> received_;  // Linear: [receive_begin_, receive_end_) is unread.
  std::size_t receive_begin_ = 0;
  std::size_t receive_end_ = 0;
  bool at_end_ = false;  // The socket has nothing more; received_ may.
};

}  // namespace trireme
