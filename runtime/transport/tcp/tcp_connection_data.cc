// How bytes move through a connection: straight between the user's memory and the
// sockets when they can, through the buffers when they are small or too early.
#include <sys/epoll.h>

#include <sched.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <trireme/base/check.h>
#include <trireme/platform/clock.h>

#include "runtime/transport/tcp/tcp_connection.h"

namespace trireme {
namespace {
// Larger pieces go straight to the user's memory; smaller ones through the buffer, which
// takes in many of them with one system call.
constexpr std::size_t kDirectBytes = 4096;
// What a small piece takes in beyond itself: many messages, or the beginning of a large one,
// which costs a copy.
constexpr std::size_t kAheadBytes = 32 * 1024;
}  // namespace

// ---- outgoing ----

void TcpConnection::count_sent(std::size_t bytes) {
  const unsigned stream = stripe_place(send_head_, stream_count_).stream;
  send_head_ += bytes;
  if (!streams_[stream]->looked_after) look_after(stream);
}

void TcpConnection::flush() {
  while (send_head_ != send_tail_ && !ended()) {
    std::size_t held = static_cast<std::size_t>(send_tail_ - send_head_);
    TcpStream* stream = stream_at(send_head_, held);
    if (stream == nullptr || is_armed(*stream, EPOLLOUT)) return;
    const std::size_t begin = send_index(send_head_);
    const std::size_t first = std::min(held, bytes_ - begin);
    std::array<iovec, 2> pieces{{{send_.get() + begin, first}, {send_.get(), held - first}}};
    const ssize_t sent = send_pieces(stream->fd.get(), pieces.data(), first == held ? 1 : 2);
    if (sent > 0) {
      count_sent(static_cast<std::size_t>(sent));
    } else if (sent < 0 && would_block(errno)) {
      return arm(stripe_place(send_head_, stream_count_).stream, EPOLLOUT);
    } else {
      note_error(*stream, sent < 0 ? errno : EPIPE, true);
    }
  }
}

std::size_t TcpConnection::buffer(std::span<const std::byte> data) {
  const std::size_t bytes = std::min(data.size(), room());
  const std::size_t begin = send_index(send_tail_);
  const std::size_t first = std::min(bytes, bytes_ - begin);
  std::memcpy(send_.get() + begin, data.data(), first);
  std::memcpy(send_.get(), data.data() + first, bytes - first);
  send_tail_ += bytes;
  return bytes;
}

std::size_t TcpConnection::send_directly(std::span<const std::byte> data) {
  std::size_t moved = 0;
  while (moved < data.size() && !ended()) {
    std::size_t part = data.size() - moved;
    TcpStream* stream = stream_at(send_head_, part);
    if (stream == nullptr || is_armed(*stream, EPOLLOUT)) break;
    iovec piece{const_cast<std::byte*>(data.data()) + moved, part};
    const ssize_t sent = send_pieces(stream->fd.get(), &piece, 1);
    if (sent > 0) {
      moved += static_cast<std::size_t>(sent);
      send_tail_ += static_cast<std::uint64_t>(sent);
      count_sent(static_cast<std::size_t>(sent));
    } else if (sent < 0 && would_block(errno)) {
      arm(stripe_place(send_head_, stream_count_).stream, EPOLLOUT);
    } else {
      note_error(*stream, sent < 0 ? errno : EPIPE, true);
    }
  }
  return moved;
}

std::size_t TcpConnection::send_some(std::span<const std::byte> data) {
  if (data.empty() || ended()) return 0;
  const std::lock_guard lock(mutex_);
  flush();
  if (ended()) return 0;
  const std::size_t moved = connected() && send_head_ == send_tail_ ? send_directly(data) : buffer(data);
  if (moved > 0) patience_.sent();
  return moved;
}

std::span<std::byte> TcpConnection::reserve() {
  if (ended()) return {};
  const std::lock_guard lock(mutex_);
  if (send_head_ == send_tail_) send_origin_ = send_tail_;
  const std::size_t begin = send_index(send_tail_);
  return {send_.get() + begin, std::min(room(), bytes_ - begin)};
}

void TcpConnection::commit(std::size_t bytes) {
  patience_.sent();
  const std::lock_guard lock(mutex_);
  TRIREME_CHECK(bytes <= room(), "commit() of more bytes than reserve() showed");
  send_tail_ += bytes;
  flush();
}

// ---- incoming ----

std::size_t TcpConnection::receive(std::span<std::byte> into) {
  std::size_t moved = 0;
  while (moved < into.size() && !at_end_) {
    std::size_t part = into.size() - moved;
    TcpStream* stream = stream_at(receive_position_, part);
    if (stream == nullptr || is_armed(*stream, EPOLLIN)) break;  // Nothing has come since.
    if (std::exchange(dry_, false)) {
      ran_dry(*stream);
      break;
    }
    const ssize_t got = receive_bytes(stream->fd.get(), into.data() + moved, part);
    if (!take_in(*stream, got, part, moved)) break;
  }
  return moved;
}

// Counts what one recv gave. False when the socket has nothing more for now.
bool TcpConnection::take_in(TcpStream& stream, ssize_t got, std::size_t wanted, std::size_t& moved) {
  if (got > 0) {
    moved += static_cast<std::size_t>(got);
    receive_position_ += static_cast<std::uint64_t>(got);
    patience_.received();
    dry_ = static_cast<std::size_t>(got) < wanted;
    if (dry_) surroundings_.ring_doorbell();  // Whoever waits next asks first.
    return !dry_;
  }
  if (got < 0 && would_block(errno)) {
    ran_dry(stream);
    return false;
  }
  const int error = got < 0 ? errno : 0;
  at_end_ = true;
  if (error != 0) {
    const std::lock_guard lock(mutex_);
    note_error(stream, error, false);
  }
  return false;
}

void TcpConnection::ran_dry(TcpStream& stream) {
  const TcpPatience::Next next = patience_.nothing(tsc_to_ns(tsc_now()));
  if (next == TcpPatience::Next::give_way) sched_yield();
  if (next != TcpPatience::Next::sleep) return surroundings_.ring_doorbell();
  // Arming looks again: bytes that come in between fire at once.
  const std::lock_guard lock(mutex_);
  for (unsigned i = 0; i < stream_count_; ++i) {
    if (streams_[i].get() == &stream) arm(i, EPOLLIN | EPOLLRDHUP);
  }
}

void TcpConnection::fill(std::size_t most) {
  if (receive_begin_ == receive_end_) receive_begin_ = receive_end_ = 0;
  if (receive_end_ == bytes_ && receive_begin_ >= bytes_ / 2) {
    std::memmove(received_.get(), received_.get() + receive_begin_, receive_end_ - receive_begin_);
    receive_end_ -= receive_begin_;
    receive_begin_ = 0;
  }
  receive_end_ += receive({received_.get() + receive_end_, std::min(most, bytes_ - receive_end_)});
}

void TcpConnection::note_end() {
  if (at_end_ && receive_begin_ == receive_end_) ended_.store(true, std::memory_order_release);
}

std::span<const std::byte> TcpConnection::peek() {
  fill(bytes_);
  note_end();
  return {received_.get() + receive_begin_, receive_end_ - receive_begin_};
}

void TcpConnection::consume(std::size_t bytes) {
  TRIREME_CHECK(bytes <= receive_end_ - receive_begin_, "consume() of more bytes than peek() showed");
  receive_begin_ += bytes;
}

std::size_t TcpConnection::take_buffered(std::span<std::byte> into) {
  const std::size_t bytes = std::min(into.size(), receive_end_ - receive_begin_);
  std::memcpy(into.data(), received_.get() + receive_begin_, bytes);
  receive_begin_ += bytes;
  return bytes;
}

std::size_t TcpConnection::receive_some(std::span<std::byte> data) {
  if (data.empty()) return 0;
  std::size_t moved = take_buffered(data);
  if (data.size() - moved >= kDirectBytes) {
    moved += receive(data.subspan(moved));
  } else if (moved < data.size()) {
    fill(kAheadBytes);
    moved += take_buffered(data.subspan(moved));
  }
  if (moved == 0) note_end();
  return moved;
}

bool TcpConnection::progress() {
  dry_ = false;
  std::size_t left = 1;
  const TcpStream* stream = stream_at(receive_position_, left);
  return stream != nullptr && !is_armed(*stream, EPOLLIN);
}

}  // namespace trireme
