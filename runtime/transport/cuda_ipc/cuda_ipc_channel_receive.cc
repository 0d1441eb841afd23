// The receiving half: host memory out of the channel below, segments by copies.
#include <algorithm>
#include <cstring>

#include <fmt/core.h>

#include <trireme/base/check.h>

#include "runtime/transport/cuda_ipc/cuda_ipc_channel.h"

namespace trireme {
namespace {

constexpr std::size_t kMostPieces = 4;
// From GPU to GPU: long enough that starting a copy costs nothing beside it, short enough
// that several streams share one message.
constexpr std::size_t kPieceBytes = std::size_t{4} << 20;

}  // namespace

// What has arrived of host memory, up to the next segment. The bytes are looked at before
// the records, so that the records before every byte seen are seen, too.
std::span<const std::byte> CudaIpcChannel::peek_ring() {
  const std::span<const std::byte> arrived = options_.base->peek();
  pump();
  if (!greeted_ || !is_usable() || at_segment()) return {};
  if (segments_.empty()) return arrived;
  return arrived.first(std::min<std::uint64_t>(arrived.size(), segments_.front().position - inbound_));
}

std::span<const std::byte> CudaIpcChannel::peek() {
  std::span<const std::byte> arrived = peek_ring();
  shown_from_slot_ = is_usable() && at_segment();
  if (shown_from_slot_) arrived = peek_segment();
  shown_ = arrived.size();
  return arrived;
}

void CudaIpcChannel::consume(std::size_t bytes) {
  TRIREME_CHECK(bytes <= shown_, "consume() of more bytes than peek() showed");
  if (bytes == 0) return;
  shown_ -= bytes;
  if (!shown_from_slot_) {
    options_.base->consume(bytes);
    advance(bytes);
    return;
  }
  Piece& piece = pieces_.front();
  const bool ended = inbound_ + bytes == piece.position + piece.bytes;
  if (ended) {
    release(piece);
    pieces_.pop_front();
  }
  advance(bytes);
}

// Memory that a caller gave and took back may be given again, at another place in the stream,
// and a segment's memory is its sender's again once it is consumed: nothing new begins before
// the copies set aside that touch either have ended.
bool CudaIpcChannel::aside_is_under_way() {
  release_ended();
  return std::any_of(aside_.begin(), aside_.end(),
                     [](const Piece& piece) { return piece.slot != piece.target || piece.mapping != nullptr; });
}

std::span<const std::byte> CudaIpcChannel::peek_segment() {
  if (!pieces_in_slots_) set_pieces_aside();
  if (aside_is_under_way()) return {};
  fill_slots();
  if (pieces_.empty() || state(pieces_.front()) != CudaIpcCopyState::done) return {};
  const Piece& piece = pieces_.front();
  const std::size_t seen = inbound_ - piece.position;
  return {piece.slot + seen, piece.bytes - seen};
}

void CudaIpcChannel::fill_slots() {
  pieces_in_slots_ = true;
  const CudaIpcSegment& segment = segments_.front();
  while (is_usable() && pieces_.size() < kMostPieces) {
    const std::uint64_t next = pieces_.empty() ? inbound_ : pieces_.back().position + pieces_.back().bytes;
    if (next == segment.end()) return;
    const Result<std::byte*> slot = options_.device->take_slot();
    if (!slot.is_ok()) return fail(slot.status());
    const std::size_t bytes = std::min<std::uint64_t>(segment.end() - next, CudaIpcDevice::kSlotBytes);
    if (!start_piece(segment, next, *slot, bytes, *slot)) {
      options_.device->give_slot(*slot);
      return;
    }
  }
}

// False when the segment's memory is not mapped yet, or cannot be.
bool CudaIpcChannel::start_piece(const CudaIpcSegment& segment, std::uint64_t position, std::byte* target,
                                 std::size_t bytes, std::byte* slot) {
  if (fail_if_withdrawn(segment)) return false;
  Result<std::shared_ptr<CudaIpcMapping>> mapping =
      options_.imports->get(options_.peer.rank, options_.endpoint, segment.region);
  if (!mapping.is_ok()) {
    fail(mapping.status());
    return false;
  }
  if (*mapping == nullptr) return false;
  const std::byte* source = (*mapping)->at(segment.offset + (position - segment.position));
  const Result<CUevent> event = copy(target, source, bytes);
  if (!event.is_ok()) return false;
  pieces_.push_back({position, bytes, target, slot, *event, std::move(*mapping)});
  return true;
}

std::size_t CudaIpcChannel::receive_some(std::span<std::byte> data) {
  if (data.empty() || !options_.device->is_device_memory(data.data())) return Channel::receive_some(data);
  if (pieces_in_slots_ || (!pieces_.empty() && pieces_.front().target != data.data())) {
    set_pieces_aside();  // They were for other memory; what they read is still there.
    pieces_in_slots_ = false;
  }
  if (aside_is_under_way()) return 0;
  fill_target(data);
  std::size_t moved = 0;
  while (is_usable() && !pieces_.empty() && state(pieces_.front()) == CudaIpcCopyState::done) {
    Piece& piece = pieces_.front();
    const std::size_t bytes = std::min(piece.bytes, data.size() - moved);
    if (bytes == 0) break;
    if (piece.slot != nullptr) options_.base->consume(bytes);
    piece.position += bytes;
    piece.target += bytes;
    piece.bytes -= bytes;
    if (piece.bytes == 0) {  // Otherwise the caller asks for less than before.
      release(piece);
      pieces_.pop_front();
    }
    moved += bytes;
    advance(bytes);
  }
  // The streams are kept busy.
  if (moved > 0 && moved < data.size()) fill_target(data.subspan(moved));
  return moved;
}

// Starts copies for what can be had of the first data.size() bytes of the stream.
void CudaIpcChannel::fill_target(std::span<std::byte> data) {
  if (pieces_.empty() && !peek_ring().empty()) {
    start_ring_piece(data);
    return;
  }
  for (const CudaIpcSegment& segment : segments_) {
    while (is_usable() && pieces_.size() < kMostPieces) {
      const std::uint64_t next = pieces_.empty() ? inbound_ : pieces_.back().position + pieces_.back().bytes;
      const std::size_t wanted = data.size() - std::min<std::uint64_t>(data.size(), next - inbound_);
      if (next < segment.position || next >= segment.end() || wanted == 0) break;
      const std::size_t bytes = std::min<std::uint64_t>({segment.end() - next, wanted, kPieceBytes});
      if (!start_piece(segment, next, data.data() + (next - inbound_), bytes, nullptr)) return;
    }
  }
}

// Host memory for a GPU: copied into a slot, since the ring is not pinned, and consumed
// when it has arrived.
void CudaIpcChannel::start_ring_piece(std::span<std::byte> target) {
  const std::span<const std::byte> arrived = peek_ring();
  const Result<std::byte*> slot = options_.device->take_slot();
  if (!slot.is_ok()) return fail(slot.status());
  const std::size_t bytes = std::min({arrived.size(), target.size(), CudaIpcDevice::kSlotBytes});
  std::memcpy(*slot, arrived.data(), bytes);
  const Result<CUevent> event = copy(target.data(), *slot, bytes);
  if (!event.is_ok()) return options_.device->give_slot(*slot);
  pieces_.push_back({inbound_, bytes, target.data(), *slot, *event, nullptr});
}

bool CudaIpcChannel::fail_if_withdrawn(const CudaIpcSegment& segment) {
  if (!withdrawn_) return false;
  fail(
      data_loss(fmt::format("{} closed its channel before {} bytes of its GPU memory were read: it must wait until "
                            "the channel is drained",
                            options_.peer.to_string(), segment.bytes)));
  return true;
}

void CudaIpcChannel::advance(std::size_t bytes) {
  inbound_ += bytes;
  if (segments_.empty() || segments_.front().end() != inbound_) return;
  pump();
  if (fail_if_withdrawn(segments_.front())) return;
  CudaIpcRecord record;
  record.kind = CudaIpcRecord::Kind::consumed;
  record.position = inbound_;
  segments_.pop_front();
  records_.send(record);
  records_.flush();
}

}  // namespace trireme
