#include "runtime/transport/cuda_ipc/cuda_ipc_channel.h"

#include <algorithm>

#include <fmt/core.h>

#include <trireme/telemetry/log.h>

namespace trireme {
namespace {

constexpr std::uint64_t kSettleMs = 2'000;

}  // namespace

CudaIpcChannel::CudaIpcChannel(CudaIpcChannelOptions options)
    : options_(std::move(options)), records_(std::move(options_.records)) {
  CudaIpcRecord hello;
  hello.kind = CudaIpcRecord::Kind::hello;
  hello.reads = options_.reads.is_ok();
  hello.reason = options_.reads.message();
  records_.send(hello);
  records_.flush();
}

CudaIpcChannel::~CudaIpcChannel() {
  pump();
  if (consumed_end_ != announced_end_) {
    CudaIpcRecord withdraw;
    withdraw.kind = CudaIpcRecord::Kind::withdraw;
    records_.send(withdraw);
  }
  records_.flush();
  set_pieces_aside();
  if (staged_) aside_.push_back(std::move(*staged_));
  const auto deadline = Deadline::after_ms(kSettleMs);
  for (Piece& piece : aside_) {
    if (options_.device->settle(piece.event, deadline).code() != StatusCode::deadline_exceeded) {
      release(piece);
      continue;
    }
    log_line(LogLevel::warn, "transport",
             fmt::format("a copy of GPU memory of {} has not ended in {} ms", options_.peer.to_string(), kSettleMs));
    options_.device->abandon(piece.event, piece.slot, std::move(piece.mapping));
  }
}

void CudaIpcChannel::fail(const Status& error) {
  // The first error is the cause; what follows it is only its consequence.
  if (error_.is_ok()) {
    error_ = error.with_context(
        fmt::format("cuda_ipc channel of context {} with {}", options_.context, options_.peer.to_string()));
  }
}

Result<CUevent> CudaIpcChannel::copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  Result<CUevent> event = options_.device->copy(to, from, bytes);
  if (event.is_ok()) {
    options_.watch_copies();
  } else {
    fail(event.status());
  }
  return event;
}

void CudaIpcChannel::pump() {
  if (!aside_.empty()) release_ended();
  records_.flush();
  while (is_usable()) {
    const Result<std::optional<CudaIpcRecord>> record = records_.take();
    if (!record.is_ok()) return fail(record.status());
    if (!record->has_value()) return;
    take(**record);
  }
}

void CudaIpcChannel::take(const CudaIpcRecord& record) {
  using Kind = CudaIpcRecord::Kind;
  if (!greeted_ && record.kind != Kind::hello) return fail(data_loss("the first record is no hello"));
  switch (record.kind) {
    case Kind::hello:
      greeted_ = true;
      peer_reads_ = record.reads;
      if (!record.reads) {
        log_line(LogLevel::info, "transport",
                 fmt::format("GPU memory goes to {} through the host: {}", options_.peer.to_string(), record.reason));
      }
      break;
    case Kind::segment:
      if (record.segment.position < segments_end_) return fail(data_loss("segments overlap"));
      segments_.push_back(record.segment);
      segments_end_ = record.segment.end();
      break;
    case Kind::consumed:
      while (!open_ends_.empty() && open_ends_.front() <= record.position) {
        consumed_end_ = open_ends_.front();
        open_ends_.pop_front();
      }
      break;
    case Kind::withdraw:
      withdrawn_ = true;
      break;
    case Kind::forget:
      options_.imports->forget(options_.peer.rank, record.id);
      break;
  }
}

CudaIpcCopyState CudaIpcChannel::state(const Piece& piece) {
  const CudaIpcCopyState now = options_.device->state(piece.event);
  if (now == CudaIpcCopyState::failed) fail(options_.device->settle(piece.event, Deadline::at_ns(0)));
  return now;
}

void CudaIpcChannel::release(Piece& piece) {
  options_.device->release(piece.event);
  if (piece.slot != nullptr) options_.device->give_slot(piece.slot);
  piece.mapping = nullptr;
}

void CudaIpcChannel::release_ended() {
  std::erase_if(aside_, [&](Piece& piece) {
    if (options_.device->state(piece.event) == CudaIpcCopyState::under_way) return false;
    release(piece);
    return true;
  });
}

void CudaIpcChannel::set_pieces_aside() {
  for (Piece& piece : pieces_) aside_.push_back(std::move(piece));
  pieces_.clear();
}

bool CudaIpcChannel::progress() {
  pump();
  const auto ended = [&](const Piece& piece) { return state(piece) != CudaIpcCopyState::under_way; };
  const bool copied = (!pieces_.empty() && ended(pieces_.front())) || (staged_ && ended(*staged_));
  return options_.base->progress() || copied || (at_segment() && pieces_.empty());
}

bool CudaIpcChannel::drained() const {
  return options_.base->drained() && records_.flushed() && consumed_end_ == announced_end_;
}

Status CudaIpcChannel::status() const {
  if (!error_.is_ok()) {
    const Status dead = options_.peers->status(options_.peer.rank);
    return dead.is_ok() ? error_ : dead;
  }
  Status below = options_.base->status();
  if (!below.is_ok()) return below;
  // The peer's end of the records matters to whoever waits for one of them; otherwise what
  // was sent before it can still be received.
  Status beside = records_.status();
  const bool awaited = !greeted_ || consumed_end_ != announced_end_ || !segments_.empty();
  return awaited || beside.code() != StatusCode::peer_dead ? beside : Status::ok();
}

}  // namespace trireme
