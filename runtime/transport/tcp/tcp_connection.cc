// What a connection does whichever way the bytes go: sockets come, fail, become ready
// and are closed.
#include "runtime/transport/tcp/tcp_connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include <fmt/core.h>

namespace trireme {
namespace {

// A peer that has not acknowledged anything for so long is not there any more.
constexpr std::uint64_t kUnansweredMs = 20'000;
constexpr std::uint64_t kLookAfterMs = 5'000;

// The peer has closed or died, and the World will know which.
bool means_end(int error) {
  return error == ECONNRESET || error == EPIPE;
}

}  // namespace

TcpConnection::TcpConnection(const TcpSurroundings& surroundings, std::string peer)
    : surroundings_(surroundings),
      peer_(std::move(peer)),
      bytes_(surroundings.buffer_bytes),
      send_(std::make_unique_for_overwrite<std::byte[]>(bytes_)),
      received_(std::make_unique_for_overwrite<std::byte[]>(bytes_)),
      patience_(surroundings.polling) {}

void TcpConnection::attach(TcpLink link) {
  set_tcp_options(link.fd.get());
  auto watched = surroundings_.reactor->watch(
      link.fd.get(), 0,
      [self = shared_from_this(), stream = link.stream](Reactor::Token, std::uint32_t) { self->on_ready(stream); });
  if (!watched.is_ok()) return fail(watched.status());
  {
    const std::lock_guard lock(mutex_);
    const bool fits = link.stream == 0 ? !connected() : connected() && link.stream < stream_count_;
    if (closed_ || !fits || (link.stream > 0 && streams_[link.stream]->connected)) {
      return surroundings_.reactor->forget(*watched);
    }
    if (link.stream == 0) {
      stream_count_ = link.streams;
      for (unsigned i = 0; i < stream_count_; ++i) streams_[i] = std::make_unique<TcpStream>();
    }
    TcpStream& stream = *streams_[link.stream];
    stream.fd = std::move(link.fd);
    stream.token = *watched;
    stream.path = std::move(link.path);
    stream.connected.store(true, std::memory_order_release);
    connected_.store(true, std::memory_order_release);
    flush();
    close_if_done();
  }
  surroundings_.ring_doorbell();
}

void TcpConnection::fail(Status error) {
  {
    const std::lock_guard lock(mutex_);
    set_error(std::move(error));
    close_if_done();
  }
  surroundings_.ring_doorbell();
}

void TcpConnection::set_error(Status error) {
  if (failed_.load(std::memory_order_acquire)) return;
  error_ = std::move(error);
  failed_.store(true, std::memory_order_release);
}

void TcpConnection::note_error(const TcpStream& stream, int error, bool sending) {
  if (!means_end(error)) {
    const char* hint = error == ETIMEDOUT ? ": nothing was acknowledged; the host or the network to it is gone" : "";
    set_error(unavailable(
        fmt::format("the connection to {}, from {}, broke: {}{}", peer_, stream.path, strerrorname_np(error), hint)));
  }
  // What came before the end can still be received.
  if (sending) ended_.store(true, std::memory_order_release);
}

void TcpConnection::on_ready(unsigned stream) {
  {
    const std::lock_guard lock(mutex_);
    streams_[stream]->armed.store(0, std::memory_order_release);
    flush();
    close_if_done();
  }
  surroundings_.ring_doorbell();  // After armed was cleared: whoever saw it set is woken and asks again.
}

void TcpConnection::arm(unsigned index, std::uint32_t events) {
  TcpStream& stream = *streams_[index];
  const std::uint32_t before = stream.armed.load(std::memory_order_relaxed);
  if ((before | events) == before) return;
  stream.armed.store(before | events, std::memory_order_release);
  surroundings_.reactor->arm(stream.token, before | events);
}

// While bytes are under way: is the peer's host there? The kernel itself takes a quarter
// of an hour to give up, or, with TCP_USER_TIMEOUT, takes a peer that reads nothing for a
// lost one.
void TcpConnection::look_after(unsigned index) {
  streams_[index]->looked_after = true;
  surroundings_.reactor->run_at(Deadline::after_ms(kLookAfterMs), [weak = weak_from_this(), index] {
    const auto self = weak.lock();
    if (!self) return;
    {
      const std::lock_guard lock(self->mutex_);
      TcpStream& stream = *self->streams_[index];
      stream.looked_after = false;
      if (self->closed_) return;
      const TcpSilence silence = tcp_silence(stream.fd.get());
      stream.silent_ms = silence.last_answer_ms < kLookAfterMs ? 0 : stream.silent_ms + kLookAfterMs;
      if (!silence.under_way) stream.silent_ms = 0;
      if (silence.under_way && stream.silent_ms < kUnansweredMs) self->look_after(index);
      if (stream.silent_ms < kUnansweredMs) return;
      self->note_error(stream, ETIMEDOUT, true);
      self->close_if_done();
    }
    self->surroundings_.ring_doorbell();
  });
}

TcpStream* TcpConnection::stream_at(std::uint64_t position, std::size_t& left) {
  if (!connected()) return nullptr;
  const StripePlace place = stripe_place(position, stream_count_);
  if (place.left < left) left = static_cast<std::size_t>(place.left);
  if (stream_count_ > 1) want_streams(position);
  TcpStream* stream = streams_[place.stream].get();
  return stream->connected.load(std::memory_order_acquire) ? stream : nullptr;
}

void TcpConnection::want_streams(std::uint64_t position) {
  if (position < kStripeAfter / 2 || !open_more_ || wanted_streams_.exchange(true)) return;
  open_more_(stream_count_);
}

void TcpConnection::close_if_done() {
  if (!closing_ || closed_) return;
  const bool broken = ended() || failed_.load(std::memory_order_acquire);
  if (!broken && (send_head_ != send_tail_ || !connected())) return;
  closed_ = true;
  connected_.store(false, std::memory_order_release);
  for (unsigned i = 0; i < stream_count_; ++i) {
    TcpStream* stream = streams_[i].get();
    if (stream == nullptr || !stream->connected.exchange(false)) continue;
    surroundings_.reactor->forget(stream->token);
    if (broken) {
      shutdown(stream->fd.get(), SHUT_RDWR);  // A forked child may hold a copy: close alone tells the peer nothing.
      stream->fd.reset();
    } else {
      drain_and_close(surroundings_.reactor, std::move(stream->fd), TcpLingering::hold(surroundings_.draining));
    }
  }
  lingers_.reset();
  if (on_closed_) on_closed_();
}

void TcpConnection::close(bool abandon) {
  const std::lock_guard lock(mutex_);
  closing_ = true;
  if (abandon) ended_.store(true, std::memory_order_release);
  flush();
  // Without a socket there is nobody to tell yet: attach() or fail() comes to the end.
  if (send_head_ != send_tail_ && !abandon) lingers_ = TcpLingering::hold(surroundings_.lingering);
  close_if_done();
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

}  // namespace trireme
