#include "runtime/transport/tcp/tcp_connection.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

namespace trireme {
namespace {

// Larger pieces go straight to the user's memory; smaller ones through the buffer, which
// takes in many of them with one system call.
constexpr std::size_t kDirectBytes = 4096;

// Between looks at what the peer has not acknowledged yet.
constexpr std::uint64_t kFirstPauseMs = 1;
constexpr std::uint64_t kLongestPauseMs = 50;
constexpr int kDiscardsPerLook = 64;

bool would_block(int error) {
  return error == EAGAIN || error == EWOULDBLOCK;
}

void set_option(int fd, int level, int option, int value) {
  // Refused options cost speed or the early notice of a lost host, nothing else.
  setsockopt(fd, level, option, &value, sizeof value);
}

void set_socket_options(int fd) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

// Drops what has come in. False when the peer has closed, or the connection is broken.
bool discard_incoming(int fd) {
  std::array<std::byte, 16 * 1024> nowhere;
  for (int i = 0; i < kDiscardsPerLook; ++i) {
    const ssize_t got = recv(fd, nowhere.data(), nowhere.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 && would_block(errno);
  }
  return true;
}

// The peer's kernel has acknowledged everything, the end included.
bool all_acknowledged(int fd) {
  int left = 0;
  return ioctl(fd, SIOCOUTQ, &left) != 0 || left == 0;
}

ssize_t send_pieces(int fd, iovec* pieces, std::size_t count) {
  msghdr header{};
  header.msg_iov = pieces;
  header.msg_iovlen = count;
  ssize_t sent = 0;
  do {
    sent = sendmsg(fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  return sent;
}

}  // namespace

TcpConnection::TcpConnection(std::shared_ptr<Reactor> reactor, std::shared_ptr<TcpLingering> lingering,
                             std::function<void()> ring_doorbell, std::size_t buffer_bytes)
    : reactor_(std::move(reactor)),
      lingering_(std::move(lingering)),
      ring_doorbell_(std::move(ring_doorbell)),
      send_(buffer_bytes),
      received_(buffer_bytes) {}

void TcpConnection::attach(UniqueFd fd) {
  set_socket_options(fd.get());
  auto watched =
      reactor_->watch(fd.get(), 0, [self = shared_from_this()](Reactor::Token, std::uint32_t) { self->on_ready(); });
  if (!watched.is_ok()) return fail(watched.status());
  {
    const std::lock_guard lock(mutex_);
    if (gone_) return reactor_->forget(*watched);
    fd_ = std::move(fd);
    token_ = *watched;
    connected_.store(true, std::memory_order_release);
    flush();
    close_if_done();
  }
  ring_doorbell_();
}

void TcpConnection::fail(Status error) {
  {
    const std::lock_guard lock(mutex_);
    error_ = std::move(error);
    failed_.store(true, std::memory_order_release);
    close_if_done();
  }
  ring_doorbell_();
}

void TcpConnection::on_ready() {
  {
    const std::lock_guard lock(mutex_);
    armed_.store(0, std::memory_order_release);
    flush();
    close_if_done();
  }
  ring_doorbell_();  // After armed_ was cleared: whoever saw it set is woken and asks again.
}

void TcpConnection::arm(std::uint32_t events) {
  const std::uint32_t before = armed_.load(std::memory_order_relaxed);
  if ((before | events) == before) return;
  armed_.store(before | events, std::memory_order_release);
  reactor_->arm(token_, before | events);
}

void TcpConnection::flush() {
  while (send_head_ != send_tail_ && connected_ && !ended()) {
    const std::size_t mask = send_.size() - 1;
    const std::size_t begin = send_head_ & mask;
    const std::size_t held = send_tail_ - send_head_;
    const std::size_t first = std::min(held, send_.size() - begin);
    std::array<iovec, 2> pieces{{{send_.data() + begin, first}, {send_.data(), held - first}}};
    const ssize_t sent = send_pieces(fd_.get(), pieces.data(), first == held ? 1 : 2);
    if (sent > 0) {
      send_head_ += static_cast<std::size_t>(sent);
    } else if (sent < 0 && would_block(errno)) {
      return arm(EPOLLOUT);
    } else {
      ended_.store(true, std::memory_order_release);
    }
  }
}

void TcpConnection::close_if_done() {
  if (!closing_) return;
  const bool nothing_left = send_head_ == send_tail_ && connected_;
  const bool broken = ended() || failed_.load(std::memory_order_acquire);
  if (!broken && (!nothing_left || !delivered())) return;
  closing_ = false;
  gone_ = true;
  if (connected_) {
    reactor_->forget(token_);
    connected_ = false;
    shutdown(fd_.get(), SHUT_RDWR);  // A forked child may hold a copy: close alone tells the peer nothing.
    fd_.reset();
  }
  if (lingers_) lingering_->end();
}

// Closing a socket while incoming bytes lie unread, or come later, resets the connection
// and destroys what the kernel has not delivered yet. So the end is announced first, what
// comes in is dropped, and the socket lives until the peer's kernel has everything or the
// peer has closed too.
bool TcpConnection::delivered() {
  if (pause_ms_ == 0) {
    shutdown(fd_.get(), SHUT_WR);
    pause_ms_ = kFirstPauseMs;
  }
  if (!discard_incoming(fd_.get()) || all_acknowledged(fd_.get())) return true;
  arm(EPOLLIN | EPOLLRDHUP);
  if (looks_again_) return false;
  looks_again_ = true;
  reactor_->run_at(Deadline::after_ms(pause_ms_), [self = shared_from_this()] {
    const std::lock_guard lock(self->mutex_);
    self->looks_again_ = false;
    self->close_if_done();
  });
  pause_ms_ = std::min(2 * pause_ms_, kLongestPauseMs);
  return false;
}

void TcpConnection::close(bool peer_is_dead) {
  const std::lock_guard lock(mutex_);
  closing_ = true;
  if (peer_is_dead) ended_.store(true, std::memory_order_release);
  flush();
  close_if_done();
  // Without a socket there is nobody to tell yet: attach() or fail() comes to the end.
  lingers_ = closing_ && (send_head_ != send_tail_ || connected_);
  if (lingers_) lingering_->begin();
}

std::size_t TcpConnection::buffer(std::span<const std::byte> data) {
  const std::size_t bytes = std::min(data.size(), room());
  const std::size_t begin = send_tail_ & (send_.size() - 1);
  const std::size_t first = std::min(bytes, send_.size() - begin);
  std::memcpy(send_.data() + begin, data.data(), first);
  std::memcpy(send_.data(), data.data() + first, bytes - first);
  send_tail_ += bytes;
  return bytes;
}

std::size_t TcpConnection::send_directly(std::span<const std::byte> data) {
  std::size_t moved = 0;
  while (moved < data.size()) {
    iovec piece{const_cast<std::byte*>(data.data()) + moved, data.size() - moved};
    const ssize_t sent = send_pieces(fd_.get(), &piece, 1);
    if (sent > 0) {
      moved += static_cast<std::size_t>(sent);
      continue;
    }
    if (sent < 0 && would_block(errno))
      arm(EPOLLOUT);
    else
      ended_.store(true, std::memory_order_release);
    break;
  }
  return moved;
}

std::size_t TcpConnection::send_some(std::span<const std::byte> data) {
  if (data.empty() || ended()) return 0;
  const std::lock_guard lock(mutex_);
  if ((armed_.load(std::memory_order_acquire) & EPOLLOUT) == 0) flush();
  if (ended()) return 0;
  if (connected_ && send_head_ == send_tail_) {
    return (armed_.load(std::memory_order_acquire) & EPOLLOUT) == 0 ? send_directly(data) : 0;
  }
  return buffer(data);
}

std::span<std::byte> TcpConnection::reserve() {
  if (ended()) return {};
  const std::lock_guard lock(mutex_);
  const std::size_t begin = send_tail_ & (send_.size() - 1);
  return {send_.data() + begin, std::min(room(), send_.size() - begin)};
}

void TcpConnection::commit(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  TRIREME_CHECK(bytes <= room(), "commit() of more bytes than reserve() showed");
  send_tail_ += bytes;
  if ((armed_.load(std::memory_order_acquire) & EPOLLOUT) == 0) flush();
}

std::size_t TcpConnection::receive(std::span<std::byte> into) {
  std::size_t moved = 0;
  while (moved < into.size()) {
    if (at_end_ || !connected_.load(std::memory_order_acquire)) break;
    if ((armed_.load(std::memory_order_acquire) & EPOLLIN) != 0) break;  // Nothing has come since.
    const ssize_t got = recv(fd_.get(), into.data() + moved, into.size() - moved, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    const bool empty = got < 0 && would_block(errno);
    if (got > 0) moved += static_cast<std::size_t>(got);
    if (empty || (got > 0 && moved < into.size())) {
      // Arming looks again: bytes that come in between fire at once.
      const std::lock_guard lock(mutex_);
      arm(EPOLLIN | EPOLLRDHUP);
    } else if (got <= 0) {
      at_end_ = true;
    }
  }
  return moved;
}

void TcpConnection::fill() {
  if (receive_begin_ == receive_end_) receive_begin_ = receive_end_ = 0;
  if (receive_end_ == received_.size() && receive_begin_ >= received_.size() / 2) {
    std::memmove(received_.data(), received_.data() + receive_begin_, receive_end_ - receive_begin_);
    receive_end_ -= receive_begin_;
    receive_begin_ = 0;
  }
  receive_end_ += receive({received_.data() + receive_end_, received_.size() - receive_end_});
}

void TcpConnection::note_end() {
  if (at_end_ && receive_begin_ == receive_end_) ended_.store(true, std::memory_order_release);
}

std::span<const std::byte> TcpConnection::peek() {
  fill();
  note_end();
  return {received_.data() + receive_begin_, receive_end_ - receive_begin_};
}

void TcpConnection::consume(std::size_t bytes) {
  TRIREME_CHECK(bytes <= receive_end_ - receive_begin_, "consume() of more bytes than peek() showed");
  receive_begin_ += bytes;
}

std::size_t TcpConnection::take_buffered(std::span<std::byte> into) {
  const std::size_t bytes = std::min(into.size(), receive_end_ - receive_begin_);
  std::memcpy(into.data(), received_.data() + receive_begin_, bytes);
  receive_begin_ += bytes;
  return bytes;
}

std::size_t TcpConnection::receive_some(std::span<std::byte> data) {
  if (data.empty()) return 0;
  std::size_t moved = take_buffered(data);
  if (data.size() - moved >= kDirectBytes) {
    moved += receive(data.subspan(moved));
  } else if (moved < data.size()) {
    fill();
    moved += take_buffered(data.subspan(moved));
  }
  if (moved == 0) note_end();
  return moved;
}

bool TcpConnection::progress() {
  const std::uint32_t armed = armed_.load(std::memory_order_acquire);
  return connected_.load(std::memory_order_acquire) && (armed & EPOLLIN) == 0;
}

bool TcpConnection::drained() {
  const std::lock_guard lock(mutex_);
  return send_head_ == send_tail_;
}

Status TcpConnection::error() {
  if (!failed_.load(std::memory_order_acquire)) return Status::ok();
  const std::lock_guard lock(mutex_);
  return error_;
}

void TcpLingering::begin() {
  const std::lock_guard lock(mutex_);
  ++count_;
}

void TcpLingering::end() {
  const std::lock_guard lock(mutex_);
  --count_;
  changed_.notify_all();
}

bool TcpLingering::wait(Deadline deadline) {
  std::unique_lock lock(mutex_);
  while (count_ > 0 && !deadline.expired()) {
    changed_.wait_for(lock, std::chrono::milliseconds(std::max(1, deadline.remaining_ms())));
  }
  return count_ == 0;
}

}  // namespace trireme
