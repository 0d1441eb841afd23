// The byte pipe between two ranks over one socket or several (tcp_stream.h), with a send
// buffer and a receive buffer. It exists from the opening of its channel, before there is
// a socket (what is sent meanwhile waits in the send buffer), and outlives the channel
// until the send buffer is empty.
//
// Sockets are watched one shot at a time. A call that finds nothing to receive first asks
// its caller back at once, by ringing the doorbell, for as long as tcp_patience.h says; only
// then is the socket armed, and the service thread rings.
// Thread safety: attach() and fail() from any thread; close() and the data calls on the
// channel's thread; both sides meet under the mutex.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include <trireme/base/status.h>

#include "runtime/platform/api/unique_fd.h"
#include "runtime/transport/api/reactor.h"
#include "runtime/transport/tcp/tcp_drain.h"
#include "runtime/transport/tcp/tcp_patience.h"
#include "runtime/transport/tcp/tcp_stream.h"

namespace trireme {

// A system call moves up to so much: every call ends with a packet that isn't full, and 64 KiB
// are just more than the largest one that veth, loopback and offloading devices take whole.
inline constexpr std::size_t kTcpTurnBytes = std::size_t{1} << 20;

struct TcpSurroundings {
  std::shared_ptr<Reactor> reactor;
  std::shared_ptr<TcpLingering> lingering;  // Those with bytes that the kernel has not taken yet,
  std::shared_ptr<TcpLingering> draining;   // and those whose peer has not acknowledged all.
  std::function<void()> ring_doorbell;
  std::size_t buffer_bytes = 0;  // A power of two, per direction.
  TcpPolling polling;
};

// A socket whose handshake is done.
struct TcpLink {
  UniqueFd fd;
  unsigned stream = 0;
  unsigned streams = 1;
  std::string path;
};

class TcpConnection : public std::enable_shared_from_this<TcpConnection> {
 public:
  TcpConnection(const TcpSurroundings& surroundings, std::string peer);

  // Stream 0 comes first and says how many there are.
  void attach(TcpLink link);
  void fail(Status error);
  // Called once, when the streams beyond the first are about to be needed. Set by the
  // side that connects, before the first attach().
  void on_more_streams(std::function<void(unsigned streams)> open) { open_more_ = std::move(open); }
  // Called once, when the last byte has gone to the kernel after close(). Likewise.
  void on_closed(std::function<void()> closed) { on_closed_ = std::move(closed); }

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
  // The channel is gone: flushes what is buffered, then closes. With `abandon`, at once.
  void close(bool abandon);

 private:
  bool connected() const { return connected_.load(std::memory_order_acquire); }
  bool is_armed(const TcpStream& stream, std::uint32_t event) const {
    return (stream.armed.load(std::memory_order_acquire) & event) != 0;
  }
  void on_ready(unsigned stream);
  void arm(unsigned stream, std::uint32_t events);                    // REQUIRES: mutex_ held.
  void flush();                                                       // REQUIRES: mutex_ held.
  void close_if_done();                                               // REQUIRES: mutex_ held.
  std::size_t buffer(std::span<const std::byte> data);                // REQUIRES: mutex_ held.
  std::size_t send_directly(std::span<const std::byte> data);         // REQUIRES: mutex_ held.
  void note_error(const TcpStream& stream, int error, bool sending);  // REQUIRES: mutex_ held.
  void set_error(Status error);                                       // REQUIRES: mutex_ held.
  // The stream of `position`, or null while it has no socket; `left` is cut to its block.
  TcpStream* stream_at(std::uint64_t position, std::size_t& left);
  void want_streams(std::uint64_t position);
  void look_after(unsigned stream);    // REQUIRES: mutex_ held.
  void count_sent(std::size_t bytes);  // REQUIRES: mutex_ held.
  std::size_t receive(std::span<std::byte> into);
  bool take_in(TcpStream& stream, ssize_t got, std::size_t wanted, std::size_t& moved);
  void ran_dry(TcpStream& stream);
  void fill(std::size_t most);
  std::size_t take_buffered(std::span<std::byte> into);
  void note_end();
  std::size_t room() const { return bytes_ - (send_tail_ - send_head_); }
  std::size_t send_index(std::uint64_t position) const { return (position - send_origin_) & (bytes_ - 1); }

  const TcpSurroundings surroundings_;
  const std::string peer_;
  const std::size_t bytes_;
  std::function<void(unsigned)> open_more_;
  std::function<void()> on_closed_;
  std::mutex mutex_;
  std::array<std::unique_ptr<TcpStream>, kMostTcpStreams> streams_;  // Made before connected_.
  unsigned stream_count_ = 1;                                        // Likewise.
  std::atomic<bool> connected_{false};
  std::atomic<bool> ended_{false};
  std::atomic<bool> failed_{false};
  std::atomic<bool> wanted_streams_{false};
  bool closing_ = false;
  bool closed_ = false;
  std::shared_ptr<void> lingers_;
  Status error_;

  // Rings; positions count all bytes. Their pages are touched when they are used.
  std::unique_ptr<std::byte[]> send_;
  std::uint64_t send_head_ = 0;
  std::uint64_t send_tail_ = 0;
  std::uint64_t send_origin_ = 0;  // What lies at the ring's beginning: whoever finds it empty gets all of it.
  // Linear: [receive_begin_, receive_end_) is unread.
  std::unique_ptr<std::byte[]> received_;
  std::size_t receive_begin_ = 0;
  std::size_t receive_end_ = 0;
  std::uint64_t receive_position_ = 0;  // Bytes taken from the sockets.
  bool at_end_ = false;                 // The socket has nothing more; received_ may.
  bool dry_ = false;                    // The last recv emptied its socket: another would be in vain.
  TcpPatience patience_;
};

}  // namespace trireme
