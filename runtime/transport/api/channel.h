// Channel: a reliable, ordered pipe of bytes in both directions between this rank and
// one peer, for one context (a communicator).
//
// Bounded: a sender that is ahead finds no room and comes back later. Independent: a
// channel whose reader is slow never holds up another one, also not one of the same
// pair (several communicators can be in flight in any order without deadlock).
// Nothing here blocks. When a call made no progress, wait on the fabric's Doorbell,
// which rings when any channel may move again: when more has arrived than the last peek()
// or receive_some() saw; when room has grown after the buffer was found more than half
// full or send_some() moved less than asked; when a channel broke.
//
// Payload can be moved by copy (send_some, receive_some) or in place: reserve() shows
// free room to write into directly and peek() shows bytes that have arrived, so that
// a reduction can read one channel's ring and write into another's.
// Thread safety: one thread at a time per channel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <trireme/base/status.h>

namespace trireme {

// What a transport can do, asked before the call is made.
struct TransportCapabilities {
  bool crosses_hosts = false;
  bool in_place = false;            // peek() and reserve() show memory shared with the peer.
  bool notices_peer_death = false;  // A channel reports peer_dead by itself.
  bool device_memory = false;       // send_in_place() and receive_some() take GPU memory.
};

class Channel {
 public:
  virtual ~Channel() = default;

  // Contiguous room to write into, possibly empty, and short where the buffer wraps:
  // use what there is. Valid until the next call.
  virtual std::span<std::byte> reserve() = 0;
  // Sends the first `bytes` of what reserve() showed.
  virtual void commit(std::size_t bytes) = 0;
  // Contiguous bytes that have arrived, possibly empty, and short where the buffer wraps
  // or memory sent in place begins or ends.
  // Valid until the next call.
  virtual std::span<const std::byte> peek() = 0;
  // Drops the first `bytes` of what peek() showed.
  virtual void consume(std::size_t bytes) = 0;

  // Copies; returns how many bytes moved, 0 when none could.
  virtual std::size_t send_some(std::span<const std::byte> data);
  // As send_some, but may read the bytes from where they lie until drained() is true: they
  // must stay and stay unchanged so long. Verbs and cuda_ipc take GPU memory here, too: when
  // it returns 0 for some, their copy may have begun, and they must stay unchanged until
  // a call with them moves bytes or one with others is made.
  virtual std::size_t send_in_place(std::span<const std::byte> data) { return send_some(data); }
  // Of GPU memory, what lies behind the bytes moved may be written until a call with other
  // memory moves bytes, or the channel is gone.
  virtual std::size_t receive_some(std::span<std::byte> data);

  // Pushes what is buffered and takes in what has arrived. Returns true when there may
  // be something new. Called by executors between attempts; cheap when idle.
  virtual bool progress() = 0;
  // ok while usable (still connecting counts); peer_dead, data_loss, ... once broken. When
  // the peer only closed its end, what it had sent can still be received, and the status
  // turns to peer_dead when an attempt to move more bytes finds the end.
  virtual Status status() const = 0;
  // Everything sent has left this process (or is readable by the peer).
  virtual bool drained() const = 0;
  virtual std::string_view transport() const = 0;  // "shm", "tcp", ...
  // How much to offer to send_some() and receive_some() at one attempt: enough for the path's
  // best speed, and little enough that operations take turns and the peer starts early.
  virtual std::size_t turn_bytes() const { return 64 * 1024; }
};

}  // namespace trireme
