// One socket of a connection, and where the bytes of a striped connection travel.
//
// A connection's bytes are numbered from 0 in each direction. The first kStripeAfter go
// over stream 0, so that small messages cost one socket; what follows is dealt out in
// blocks of kStripeBlock, in turn. Both ends know the number of streams and count bytes,
// so the blocks need no headers and arrive in order.
// Thread safety: TcpStream is guarded by its connection; the functions are pure.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include <sys/uio.h>

#include "runtime/platform/api/unique_fd.h"
#include "runtime/transport/api/reactor.h"

namespace trireme {

inline constexpr unsigned kMostTcpStreams = 16;
inline constexpr std::uint64_t kStripeAfter = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kStripeBlock = std::uint64_t{256} << 10;

struct StripePlace {
  unsigned stream = 0;
  std::uint64_t left = 0;  // Bytes from here on that travel over the same stream.
};

inline StripePlace stripe_place(std::uint64_t position, unsigned streams) {
  if (streams <= 1) return {0, UINT64_MAX};
  if (position < kStripeAfter) return {0, kStripeAfter - position};
  const std::uint64_t offset = position - kStripeAfter;
  return {static_cast<unsigned>(offset / kStripeBlock % streams), kStripeBlock - offset % kStripeBlock};
}

// How many streams a pair uses when nobody says: one on one machine, where more only
// switch more often; otherwise as many as one processor's work and one window per
// stream ask for, to fill a link of `speed_mbit` (0: unknown) at `round_trip_us`.
unsigned tcp_stream_count(std::int64_t speed_mbit, double round_trip_us, bool same_machine);

struct TcpStream {
  UniqueFd fd;  // Set once, before connected.
  Reactor::Token token = 0;
  std::string path;  // "10.0.0.1:40001 (eth0) to 10.0.0.2:4711", for messages.
  std::atomic<bool> connected{false};
  // The events it is armed for: a call found the socket not ready, and the service
  // thread has not seen it become ready since.
  std::atomic<std::uint32_t> armed{0};
  // Guarded by the connection's mutex: how long the peer's host has not answered.
  bool looked_after = false;
  std::uint64_t silent_ms = 0;
};

// Makes a connected socket ready for use: no Nagle delay, keepalive.
void set_tcp_options(int fd);
// sendmsg without waiting, retried when interrupted; -1 with errno.
ssize_t send_pieces(int fd, iovec* pieces, std::size_t count);
// recv without waiting, retried when interrupted.
ssize_t receive_bytes(int fd, void* into, std::size_t bytes);
bool would_block(int error);
// What the kernel knows of the other end. A peer that is alive but reads nothing still
// acknowledges, if only that its window is closed.
struct TcpSilence {
  bool under_way = false;  // Something has been sent that is not acknowledged yet.
  std::uint64_t last_answer_ms = 0;
};
TcpSilence tcp_silence(int fd);

}  // namespace trireme
